{
  description = "Blazar: serve many local models behind one address";

  # No versions here: uv.lock pins the Python packages, flake.lock these four.
  inputs = {
    nixpkgs.url = "github:nixos/nixpkgs/nixos-unstable";

    pyproject-nix = {
      url = "github:pyproject-nix/pyproject.nix";
      inputs.nixpkgs.follows = "nixpkgs";
    };

    uv2nix = {
      url = "github:pyproject-nix/uv2nix";
      inputs.pyproject-nix.follows = "pyproject-nix";
      inputs.nixpkgs.follows = "nixpkgs";
    };

    pyproject-build-systems = {
      url = "github:pyproject-nix/build-system-pkgs";
      inputs.pyproject-nix.follows = "pyproject-nix";
      inputs.uv2nix.follows = "uv2nix";
      inputs.nixpkgs.follows = "nixpkgs";
    };
  };

  outputs =
    {
      self,
      nixpkgs,
      pyproject-nix,
      uv2nix,
      pyproject-build-systems,
    }:
    let
      inherit (nixpkgs) lib;

      # Not x86_64-darwin: the locked build systems have no libcst wheel for it, and the dev shell would compile Rust.
      systems = [
        "x86_64-linux"
        "aarch64-linux"
        "aarch64-darwin"
      ];

      # What is published, one package each. The metapackage `blazar` holds no code: the default package is the program.
      members = [
        "blazar-gguf"
        "blazar-budget"
        "blazar-store"
        "blazar-routing"
        "blazar-gateway"
        "blazar-supervisor"
        "blazar-cli"
      ];

      # Members whose tests need nothing but themselves: no engine, no sockets, no other checkout.
      testedHere = [
        "blazar-gguf"
        "blazar-budget"
        "blazar-store"
        "blazar-routing"
      ];

      workspace = uv2nix.lib.workspace.loadWorkspace { workspaceRoot = ./.; };

      # Wheels, for the locked packages and for the build systems: from sources they would want Rust and C toolchains.
      overlay = workspace.mkPyprojectOverlay { sourcePreference = "wheel"; };
      editableOverlay = workspace.mkEditablePyprojectOverlay { root = "$REPO_ROOT"; };

      perSystem =
        system:
        let
          pkgs = nixpkgs.legacyPackages.${system};
          pythonSet =
            (pkgs.callPackage pyproject-nix.build.packages { python = pkgs.python313; }).overrideScope
              (
                lib.composeManyExtensions [
                  pyproject-build-systems.overlays.wheel
                  overlay
                ]
              );
        in
        {
          inherit pkgs pythonSet;
          inherit (pkgs.callPackage pyproject-nix.build.util { }) mkApplication;
          editableSet = pythonSet.overrideScope editableOverlay;
        };

      forAllSystems = f: lib.genAttrs systems (system: f system (perSystem system));
    in
    {
      packages = forAllSystems (
        _system:
        { pythonSet, mkApplication, ... }:
        lib.genAttrs members (member: pythonSet.${member})
        // {
          # The `blazar` program alone: a virtual environment would put its `python` on the user's PATH.
          default = mkApplication {
            venv = pythonSet.mkVirtualEnv "blazar-app-env" { blazar-cli = [ "demo" ]; };
            package = pythonSet.blazar-cli;
          };

          blazar-env = pythonSet.mkVirtualEnv "blazar-env" workspace.deps.default;
        }
      );

      apps = forAllSystems (
        system: _: rec {
          blazar = {
            type = "app";
            program = "${self.packages.${system}.default}/bin/blazar";
            meta.description = "Serve many local models behind one address";
          };
          default = blazar;
        }
      );

      devShells = forAllSystems (
        _system:
        { pkgs, editableSet, ... }:
        {
          default = pkgs.mkShell {
            packages = [
              (editableSet.mkVirtualEnv "blazar-dev-env" workspace.deps.all)
              pkgs.uv
            ];
            env = {
              UV_NO_SYNC = "1";
              UV_PYTHON = editableSet.python.interpreter;
              UV_PYTHON_DOWNLOADS = "never";
            };
            shellHook = ''
              unset PYTHONPATH
              export REPO_ROOT=$(git rev-parse --show-toplevel)
            '';
          };
        }
      );

      checks = forAllSystems (
        system:
        { pkgs, pythonSet, ... }:
        let
          testEnv = pythonSet.mkVirtualEnv "blazar-test-env" workspace.deps.all;

          # The root's pyproject.toml holds pytest's configuration; the member's own folder holds its tests.
          pytest =
            member:
            pkgs.runCommand "${member}-pytest" { nativeBuildInputs = [ testEnv ]; } ''
              export HOME=$TMPDIR
              mkdir -p work/packages
              cp ${./pyproject.toml} work/pyproject.toml
              cp -r ${pythonSet.${member}.src} work/packages/${member}
              chmod -R u+w work
              cd work
              pytest -p no:cacheprovider -m "not real and not build" packages/${member}/tests
              touch $out
            '';
        in
        lib.genAttrs members (member: pythonSet.${member})
        // builtins.listToAttrs (
          map (member: {
            name = "${member}-pytest";
            value = pytest member;
          }) testedHere
        )
        // {
          blazar-version = pkgs.runCommand "blazar-version" { } ''
            export HOME=$TMPDIR
            ${self.packages.${system}.default}/bin/blazar --version
            ${self.packages.${system}.default}/bin/blazar --help >/dev/null
            touch $out
          '';
        }
      );

      formatter = forAllSystems (_system: { pkgs, ... }: pkgs.nixfmt-tree);
    };
}
