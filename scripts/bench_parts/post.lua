-- wrk: POST bodies that differ in a number, over and over; bench_parts/load.py says which.
local requests, turn = {}, 0

function init(args)
  wrk.headers["Content-Type"] = "application/json"
  if os.getenv("BENCH_KEY") ~= "" then
    wrk.headers["Authorization"] = "Bearer " .. os.getenv("BENCH_KEY")
  end
  for number = 0, 63 do
    local body = string.gsub(os.getenv("BENCH_BODY"), "@@@@", string.format("%04d", number))
    requests[number] = wrk.format("POST", nil, nil, body)
  end
end

function request()
  turn = (turn + 1) % 64
  return requests[turn]
end
