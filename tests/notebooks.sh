#!/bin/sh
# notebooks: every one is in the list that builds and tests them; pages and .ipynb have text, code, output and figures
srcdir=${srcdir:-$(dirname "$0")/..}
. "${top_srcdir:-.}/tests/small_runs.sh"
for source in "$srcdir"/notebooks-c/*.c; do
  name=notebooks-c/$(basename "$source" .c)
  grep -q "$name\\( \\|\$\\)" "$srcdir/tests/list.am" || fail "$name is not in tests/list.am"
  test "$(sed -n 1p "$source")" = '// %% [markdown]' && sed -n 2p "$source" | grep -q '^// # ' || fail "$name has no title"
  grep -q '^ *// %% nb:main$' "$source" && grep -q '^ *// %% nb:end$' "$source" || fail "$name: where does it run?"
done

cat > "$dir/small.c" <<'END'
// %% [markdown]
// # A & B
//
// [Live & more](play.html#embed=1&view=loss)
//
// Some *words* of `code` & **more**:
//
//     a < b
//
// where $a_*$ is `$b$` or $*c < d$ and
//
// $$ \frac{a}{b} \le
//   \gamma $$

// %%
#include <stdio.h>
static int twice(int x) { return 2 * x; }

// %% nb:main
int main(void)
{
  // %% [markdown]
  // ## First

  // %%
  printf("twice 4 is %d, \"<>\"\n", twice(4));

  // %%
  FILE *f = fopen("x.svg", "w");
  fputs("<?xml version='1.0'?><svg xmlns='http://www.w3.org/2000/svg'><g/></svg>", f);
  fclose(f);
  printf("drawn\n\036mlc-svg x.svg\036\n");

  // %% nb:end
  return 0;
}
END
pages() { "$srcdir/notebooks-c/pages" --cc="${CC:-cc}" --out="$dir/out" "$@" > "$dir/said" 2> "$dir/err"; }
if ! perl -MJSON::PP -e 1 2> /dev/null; then echo "pages: skipped, no perl with JSON::PP"; exit $((failures > 0)); fi
pages "$dir/small.c" || fail "pages: $(cat "$dir/err")"
perl -MJSON::PP -e '
  local $/; open my $f, "<", shift or die; my $b = decode_json(<$f>); my @c = @{$b->{cells}};
  die "format" unless $b->{nbformat} == 4 && @c == 5;
  die "kinds" unless join(" ", map { $_->{cell_type} } @c) eq "markdown code markdown code code";
  die "text" unless $c[0]{source}[0] eq "# A & B\n" && $c[0]{source}[-1] eq "  \\gamma \$\$" && $c[2]{source}[0] eq "## First";
  die "code" unless $c[3]{source}[0] =~ /^printf/;
  die "counts" unless !defined $c[1]{execution_count} && $c[3]{execution_count} == 1 && $c[4]{execution_count} == 2;
  die "output" unless !@{$c[1]{outputs}} && $c[3]{outputs}[0]{text}[0] eq "twice 4 is 8, \"<>\"\n";
  die "figure" unless $c[4]{outputs}[0]{text}[0] eq "drawn\n" && $c[4]{outputs}[1]{data}{"image/svg+xml"}[0] =~ /<svg/;
' "$dir/out/small.ipynb" || fail "the notebook: $(cat "$dir/out/small.ipynb")"
html=$dir/out/small.html
grep -q 'play.html' "$html" "$dir/out/small.ipynb" && fail "a live figure without the page that trains"
echo trains > "$dir/play.html"
pages --live="$dir/play.html" "$dir/small.c" && cmp -s "$dir/play.html" "$dir/out/play.html" || fail "pages --live: $(cat "$dir/err")"
grep -q '<p>Live &amp; more</p><iframe title="live" src="play.html#embed=1&amp;view=loss">' "$html" && grep -qF '[Live & more](play.html#' "$dir/out/small.ipynb" ||
  fail "no live figure: $(cat "$html")"
pages "$dir/small.c" || fail "pages again: $(cat "$dir/err")"
grep -q "http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'" "$html" || fail "the page has no content security policy"
grep -q '<h1>A &amp; B</h1>' "$html" && grep -q 'Some <em>words</em> of <code>code</code> &amp; <strong>more</strong>' "$html" || fail "text: $(cat "$html")"
grep -q '<pre>a &lt; b</pre>' "$html" && grep -q '<pre class="out">twice 4 is 8, "&lt;&gt;"' "$html" || fail "commands, output: $(cat "$html")"
test "$(grep -c '<details><summary>how it is drawn' "$html")" = 1 || fail "the drawing's lines are folded, no others: $(cat "$html")"
grep -q "^<figure><svg xmlns" "$html" && ! grep -q "$(printf '\036')\|^<figure><?xml\|^mlc-svg" "$html" || fail "the figure: $(cat "$html")"
if command -v pandoc > /dev/null; then
  grep -q '<p>where <math .*<msub><mi>a</mi><mo>\*</mo></msub>.*</math> is <code>$b$</code> or <math .*<mi>c</mi><mo>&lt;</mo>.*</math> and</p>' "$html" &&
    grep -q '<div class="formula"><math display="block".*<mfrac>.*<mi>γ</mi>' "$html" && ! grep -q "$(printf '[\001\002]')" "$html" || fail "MathML: $(cat "$html")"
  if command -v xmllint > /dev/null; then
    perl -0ne 'print "<all>", /<math.*?<\/math>/gs, "</all>"' "$html" | xmllint --noout - || fail "MathML is not well-formed"
  fi
  sed 's/\\gamma/\\gmama/' "$dir/small.c" > "$dir/misspelt.c"
  pages "$dir/misspelt.c"; test $? -ne 0 && grep -q gmama "$dir/err" && test ! -e "$dir/out/misspelt.ipynb" || fail "a formula that is none: $(cat "$dir/err")"
else echo "no pandoc: MathML not looked at"; fi
pages --pandoc=no-such-program "$dir/small.c" && test ! -s "$dir/err" || fail "without pandoc: $(cat "$dir/err")"
grep -qF 'where $a_*$ is <code>$b$</code> or $*c &lt; d$ and' "$html" && grep -qF '<div class="formula">$$ \frac{a}{b} \le' "$html" || fail "LaTeX: $(cat "$html")"
sed 's/return 0/return 3/' "$dir/small.c" > "$dir/fails.c"
pages "$dir/fails.c"; test $? -ne 0 && grep -q 'exit status 3' "$dir/err" && test ! -e "$dir/out/fails.html" || fail "a notebook that fails: $(cat "$dir/err")"
sed 's/twice(4)/thrice(4)/' "$dir/small.c" > "$dir/broken.c"
pages "$dir/broken.c"; test $? -ne 0 && grep -q 'broken.c:19\|does not build' "$dir/err" || fail "one that does not build: $(cat "$dir/err")"
finish
