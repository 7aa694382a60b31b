#!/bin/sh
# packaging.sh - the files for other package managers name the version of configure and the libraries that it asks for
command -v python3 >/dev/null || { echo "python3 is not installed"; exit 77; }
. "${top_srcdir:-.}/tests/small_runs.sh"
cd "${top_srcdir:-.}" || exit 99
version=$(sed -n 's/^AC_INIT(\[maxlogit\], \[\(.*\)\])$/\1/p' configure.ac)
for file in debian/changelog packaging/apptainer.def packaging/conda/recipe.yaml packaging/spack/package.py python/pyproject.toml CITATION.cff; do
  grep -q "$version" "$file" || fail "$file: not version $version"
done

# the packages that configure names where a library is missing, and those that ./bootstrap wants of the others
wanted=$(sed -n 's/.*\[\(lib[a-z0-9]*-dev\)\].*/\1/p' configure.ac; echo libmicrohttpd-dev check autoconf automake)
for package in $wanted; do
  grep -q "[ ,]$package\( <\|,\|$\)" debian/control || grep -q "^ *$package" debian/control || grep -q ": $package," debian/control ||
    fail "debian/control: no $package"
done
for library in hdf5 openblas lapack gsl jansson libmicrohttpd xxhash; do
  for file in packaging/conda/recipe.yaml packaging/spack/package.py; do
    grep -qi "$library" "$file" || fail "$file: no $library"
  done
done

# with Homebrew: its names of all packages, and pkg-config searches its OpenBLAS
mkdir "$dir/brew" "$dir/brew/bin"
cp bootstrap "$dir/brew/"
for tool in sh dirname rm sed tr sort tail cat nproc grep; do ln -s "$(command -v $tool)" "$dir/brew/bin/"; done
printf '#!/bin/sh\ncase $1 in --prefix) echo /opt/homebrew ;; *) echo "$* $PKG_CONFIG_PATH" >>"%s/brew/log" ;; esac\n' "$dir" >"$dir/brew/bin/brew"
printf '#!/bin/sh\nexit 0\n' >"$dir/brew/bin/cc"
cp "$dir/brew/bin/cc" "$dir/brew/bin/make"
cp "$dir/brew/bin/cc" "$dir/brew/bin/c++"
chmod +x "$dir"/brew/bin/*
env -i PATH="$dir/brew/bin" "$dir/brew/bin/sh" "$dir/brew/bootstrap" deps 2>"$dir/err" && fail "bootstrap finds what stubs have not installed"
grep -qx 'install -q autoconf automake check gnuplot gsl hdf5 jansson jq libmicrohttpd numpy openblas pkgconf xxhash /opt/homebrew/opt/openblas/lib/pkgconfig' "$dir/brew/log" ||
  fail "bootstrap with Homebrew: $(cat "$dir/brew/log" "$dir/err")"

python3 -c 'import ast; ast.parse(open("packaging/spack/package.py").read())' || fail "packaging/spack/package.py"
if python3 -c 'import yaml' 2>/dev/null; then
  python3 -c 'import yaml; assert yaml.safe_load(open("packaging/conda/recipe.yaml"))["package"]["name"] == "maxlogit"' ||
    fail "packaging/conda/recipe.yaml"
else
  echo "python3-yaml is not installed: the recipe of conda is not parsed"
fi
finish
