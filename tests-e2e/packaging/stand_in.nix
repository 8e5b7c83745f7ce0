# What flake.nix asks of its four inputs, small enough to evaluate without a network: names and arguments are theirs,
# nothing is built. A member that the workspace lacks, an argument or a function that they lack, stops the evaluation.
#
#   nix-instantiate --eval --strict --json --readonly-mode tests-e2e/packaging/stand_in.nix --arg root ./.
{ root }:
let
  inherit (builtins)
    attrNames
    elem
    filter
    fromTOML
    hasAttr
    listToAttrs
    mapAttrs
    pathExists
    readDir
    readFile
    ;

  lib = {
    genAttrs =
      names: f:
      listToAttrs (
        map (name: {
          inherit name;
          value = f name;
        }) names
      );
    composeManyExtensions = overlays: overlays;
  };

  derivation = name: {
    type = "derivation";
    inherit name;
    outPath = "/nix/store/00000000000000000000000000000000-${name}";
    __toString = self: self.outPath;
  };

  # Members as uv sees them: each pattern of the root is a folder or `folder/*`.
  projectAt =
    folder: (fromTOML (readFile (folder + "/pyproject.toml"))).project // { src = folder; };
  foldersOf =
    pattern:
    let
      star = builtins.match "(.*)/\\*" pattern;
      parent = root + "/${builtins.head star}";
    in
    if star == null then
      [ (root + "/${pattern}") ]
    else
      filter (folder: pathExists (folder + "/pyproject.toml")) (
        map (name: parent + "/${name}") (attrNames (readDir parent))
      );
  rootProject = fromTOML (readFile (root + "/pyproject.toml"));
  projects = map projectAt (builtins.concatMap foldersOf rootProject.tool.uv.workspace.members);
  members = listToAttrs (
    map (project: {
      inherit (project) name;
      value =
        derivation "${project.name}-${project.version}"
        // {
          pname = project.name;
          inherit (project) version src;
          extras = attrNames (project.optional-dependencies or { });
        };
    }) projects
  );

  pythonSet = overlays: members // {
    python.interpreter = "/nix/store/python/bin/python";
    inherit overlays;
    overrideScope = more: pythonSet (overlays ++ (if builtins.isList more then more else [ more ]));
    mkVirtualEnv =
      name: spec:
      assert builtins.all (
        member:
        hasAttr member members && builtins.all (extra: elem extra members.${member}.extras) spec.${member}
      ) (attrNames spec);
      derivation name // { inherit spec overlays; };
  };

  every = mapAttrs (_: _: [ ]) members;

  inputs = {
    nixpkgs = {
      inherit lib;
      legacyPackages = lib.genAttrs [ "x86_64-linux" "aarch64-linux" "aarch64-darwin" ] (_: {
        callPackage = f: arguments: f arguments;
        python313 = derivation "python3";
        uv = derivation "uv";
        nixfmt-tree = derivation "nixfmt-tree";
        mkShell =
          {
            packages,
            env,
            shellHook,
          }:
          derivation "shell" // { inherit packages env shellHook; };
        runCommand =
          name: { nativeBuildInputs ? [ ] }: script:
          derivation name // { inherit script; };
      });
    };
    pyproject-nix.build = {
      packages = { python }: pythonSet [ ];
      util = _: {
        mkApplication =
          { venv, package }:
          derivation package.name
          // {
            inherit venv;
            program = package.pname;
          };
      };
    };
    uv2nix.lib.workspace.loadWorkspace =
      { workspaceRoot }:
      assert pathExists (workspaceRoot + "/uv.lock");
      {
        mkPyprojectOverlay = { sourcePreference }: "locked-${sourcePreference}";
        mkEditablePyprojectOverlay = { root }: "editable-${root}";
        deps = {
          default = every;
          all = every;
        };
      };
    pyproject-build-systems.overlays.wheel = "build-systems-wheel";
  };

  outputs = (import (root + "/flake.nix")).outputs (inputs // { self = outputs; });
  system = "x86_64-linux";
in
{
  systems = mapAttrs (_: attrNames) outputs;
  packages = mapAttrs (_: package: package.name) outputs.packages.${system};
  overlays = outputs.packages.${system}.default.venv.overlays;
  program = outputs.packages.${system}.default.program;
  apps = mapAttrs (_: app: app.program) outputs.apps.${system};
  checks = mapAttrs (_: check: check.script or "") outputs.checks.${system};
  shell = {
    inherit (outputs.devShells.${system}.default) env shellHook;
    overlays = (builtins.head outputs.devShells.${system}.default.packages).overlays;
  };
  formatter = outputs.formatter.${system}.name;
}
