-- wrk: POST the same body over and over; bench_parts/load.py says which.
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
wrk.body = os.getenv("BENCH_BODY")
