#!/bin/sh
# The words that a user reads: plain English, counted. prose.sh [FILE.md ...]: only these files.
command -v python3 >/dev/null 2>&1 || { echo "python3 is not installed"; exit 77; }
exec python3 - "$@" <<'PYTHON'
import glob, json, os, re, subprocess, sys

# Limits, private words per 1,000
TEXT_WORDS = 3        # private words per 1,000 words of a document
HELP_WORDS = 4        # of all help texts together
COMMENT_WORDS = 1.2   # of all comments in src: "whose" has no other word
MEAN, LONG, SHARE = 20, 35, 0.05    # words per sentence; at most this share of sentences is longer than LONG
PRIVATE = re.compile(r"\b(what|who|whoever|whose|told|tell|tells|says|nobody|asks|hears|sees|knows)\b", re.I)
BRITISH = re.compile(r"\b\w*(optimis|stabilis|normalis|colour|behaviour)\w*", re.I)
WORD = re.compile(r"[A-Za-z][A-Za-z'-]*")
top, build = os.environ.get("top_srcdir", "."), os.environ.get("top_builddir", ".")
bad = 0

def require(good, text):
    global bad
    bad += not good
    print(("" if good else "TOO MUCH: ") + text)

def rate(text):
    words = len(WORD.findall(text))
    return 1000 * len(PRIVATE.findall(text)) / max(words, 1), words

def sentences(text):
    """Lengths in words, of paragraphs and list items; not of tables and headings."""
    text = re.sub(r"^(\||#).*$", "", text, flags=re.M)
    parts = re.split(r"\n\s*\n|\n *(?:[-*]|\d+\.) ", text)
    ends = r"(?<=[.!?:;])[)*\"]?\s+(?=[A-Z`*(\"\[])"
    return [n for part in parts for s in re.split(ends, part) if (n := len(s.split())) > 1]

def document(name):
    raw = re.sub(r"^```.*?^```$", "", open(os.path.join(top, name)).read(), flags=re.M | re.S)
    # claims are quoted as they were registered
    raw = re.sub(r"^<!-- claims.*?^<!-- end of claims[^\n]*", "", raw, flags=re.M | re.S)
    raw = re.sub(r"<!--.*?-->", "", raw, flags=re.S)
    text = re.sub(r"\]\([^)]*\)", "]", re.sub(r"`[^`\n]*`", "`code`", raw))
    (private, words), lengths = rate(text), sentences(text)
    mean, long = sum(lengths) / max(len(lengths), 1), sum(n > LONG for n in lengths)
    british = sorted({m.group() for m in BRITISH.finditer(text)})
    require(private < TEXT_WORDS and mean <= MEAN and long <= SHARE * len(lengths) and not british,
            f"{name}: {words} words, {private:.1f} private words per 1,000, {mean:.1f} words per sentence, "
            f"{long} of {len(lengths)} sentences above {LONG}" + (f", British: {' '.join(british)}" if british else ""))

def help_texts():
    def output(*arguments):
        return subprocess.run([build + "/maxlogit", *arguments], capture_output=True, text=True, check=True).stdout
    listed = json.loads(output("list", "--json"))
    topics = {p["name"] for kind, rows in listed.items() if kind != "operation" for p in rows}
    return output("help") + output("help", "config") + "".join(output("help", t) for t in sorted(topics))

def comments():
    files = glob.glob(top + "/src/**/*.[ch]", recursive=True)
    return "\n".join(c for f in files for c in re.findall(r"/\*.*?\*/|//[^\n]*", open(f).read(), re.S))

for name in sys.argv[1:] or ["README.md", "CONTRIBUTING.md", "python/README.md"] + sorted(
        os.path.relpath(f, top) for pattern in ("/doc/*.md", "/experiments/README.md", "/experiments/*/README.md")
        for f in glob.glob(top + pattern)):
    document(name)
for title, limit, text in () if sys.argv[1:] else (("help", HELP_WORDS, help_texts()), ("comments", COMMENT_WORDS, comments())):
    found, words = rate(text)
    require(found <= limit, f"{title}: {words} words, {found:.2f} private words per 1,000 (at most {limit})")
sys.exit(bad > 0)
PYTHON
