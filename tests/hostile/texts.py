"""Texts that somebody else has written: run files and ledgers full of them, and a look at what becomes of them.

texts.py runs RUN.h5 FOLDER    a copy of the run for each text, FOLDER/N.h5, which has it wherever a run file has words
texts.py unit RUN.h5 OUT.h5    a series whose unit is longer than its room, so that it is cut within a letter
texts.py ledger IN.json OUT.json   a ledger with markup and a shell's words in every text but those it is found by
texts.py look FILE ...         fails where a file has a byte that steers a terminal, or is not UTF-8
texts.py page HONEST HOSTILE   fails where a page has more scripts, handlers or addresses of scripts than an honest one
texts.py title SVG N BEFORE    fails where no title of a figure begins with BEFORE and text N, as they are
texts.py sound PAGE            fails where a page of claims has a command that a shell would split otherwise
"""
import html, html.parser, json, os, re, shlex, struct, sys

TEXTS = [
    b"\x1b]52;c;cm0gLXJm\x07\x1b[2J\x1b]0;title\x07", b"\x9b31m\x90q\x9c", b"\xc2\x9b2J\xc2\x9d0;x\xc2\x9c",
    b"loss\xe2\x80\xaegnp.exe\xe2\x80\xac \xe2\x81\xa6x", b"one\nmaxlogit: warning: two\r\tthree\x0b\x0c\x7f\x08\x08",
    b"</script><script>alert(1)</script>", b"<img src=x onerror=alert(1)>\"'><svg onload=alert(1)>", b"javascript:alert(1)",
    b"'; touch pwned; '", b"`touch pwned` $(touch pwned) ; touch pwned #", b"' . system('touch pwned') . '", b"\"; system 'touch pwned'; \"",
    b"%s%n%d%1000000d %", b"{/Bold x}_^@term {}", b"=cmd|'/c calc'!A1,\"x\"", b"@SUM(A1:A9)\n", b"-2+3", b"\xff\xfe\xc3 \xed\xa0\x80 \xf0\x9f",
    "é".encode() * 40, "\u2028\u2029\u061c\ufeff\ufffe".encode(), b"__proto__", b"EOD\nset output 'pwned'\n",
]

# --- run files ------------------------------------------------------------------------------------------------------
SEAL, HEAD = b"maxlogit seal 1 xxh3-128 ", b"maxlogit head 1 xxh3-64 "

def head_of(path):
    b = open(path, "rb").read()
    i = b.rfind(HEAD)
    size = int(b[i + len(HEAD) + 17:i + len(HEAD) + 27])
    words = b[i - size:i].split(b"\0")
    return list(zip(words[0::2], words[1::2]))

def body_of(path):  # HDF5's own part
    b = open(path, "rb").read()
    return b[:struct.unpack("<Q", b[28:36])[0]] if b[8] in (2, 3) else b[:b.rfind(HEAD)]

def seal(b, head):  # a checksum without a key: whoever can edit a file can make it
    import xxhash
    words = b"".join(k.replace(b"\0", b"") + b"\0" + v.replace(b"\0", b"") + b"\0" for k, v in head)
    b += words + HEAD + b"%016x %010d\n" % (xxhash.xxh3_64_intdigest(words), len(words))
    return b + SEAL + xxhash.xxh3_128_hexdigest(b).encode() + b"\n"

def edited(source, to, change):
    import h5py
    head = head_of(source)
    open(to, "wb").write(body_of(source))
    with h5py.File(to, "r+", libver=("earliest", "v110")) as f: head = change(f, head)
    b = open(to, "rb").read()
    open(to, "wb").write(seal(b, head))

def fill(text, number):
    """The text wherever a run file has words."""
    import h5py, numpy as np
    def change(f, head):
        def put(o, key):
            if key in o.attrs: del o.attrs[key]
            o.attrs.create(key, np.bytes_(text))
        def visit(name, o):
            if isinstance(o, h5py.Dataset) and "units" in o.attrs:
                for key in ("units", "long_name", "definition"): put(o, key)
        f["series"].visititems(visit)
        name = (b"x" + text).replace(b"/", b"|")[:90]
        f["series"].copy("loss", name)
        if "DIMENSION_LIST" in f["series"][name].attrs: del f["series"][name].attrs["DIMENSION_LIST"]
        event = np.zeros(3, dtype=f["events"].dtype)
        for i in range(3):
            event[i]["step"], event[i]["kind"], event[i]["layer"], event[i]["head"], event[i]["value"] = 5 * i + 3, text[:23], -1, -1, 1
        f["events"].resize((3,))
        f["events"][:] = event
        for key in ("data_text", "date", "data"): put(f, key)
        put(f["status"], "state")
        if "notes" in f: del f["notes"]
        kind = [("date", h5py.string_dtype("utf-8", 32)), ("text", h5py.string_dtype("utf-8", 2048))]
        f.create_dataset("notes", data=np.array([(text[:30], text)], dtype=kind))
        words = (b"optimizer", b"stabilizers", b"model.attention", b"preset", b"train.schedule", b"data.path", b"data", b"arm", b"record.path", b"model.ffn")
        out = []
        for k, v in head:
            if k == b"id": v = b"aaaabbbb%04x" % number
            if k in (b"state", b"date", b"data", b"data_text") or (k.startswith(b"parameters/") and k[11:] in words): v = text
            if k != b"parameters/arm": out.append((k, v))
        return out + [(b"series/" + name, b"60"), (b"parameters/arm", text), (b"parameters/" + text[:60], text)]
    return change

def long_unit(f, head):
    import numpy as np
    d = f["series/attn/entropy"]
    del d.attrs["units"]
    d.attrs.create("units", np.bytes_("é".encode() * 20))
    return head

# --- ledgers --------------------------------------------------------------------------------------------------------
EVIL = "<script>alert(1)</script>' onmouseover='alert(1)' \" onclick=\"alert(2)\" javascript:alert(3) '; touch pwned; \x1b[2J\u009b\u202e"
SHELL = "train.lr='; touch pwned; '"

def spoil(x, key=""):
    if isinstance(x, dict): return {k: spoil(v, k) for k, v in x.items()}
    if isinstance(x, list): return [spoil(v, key) for v in x]
    if not isinstance(x, str) or key in ("id", "verdict"): return x
    return x + " " + SHELL + " `touch pwned` " + EVIL if key in ("settings", "regime", "set", "start") else x + EVIL

# --- what became of them ----------------------------------------------------------------------------------------------
STEERS = re.compile("[\0-\x08\x0b-\x1f\x7f\x80-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")

def look(path):
    b = open(path, "rb").read()
    try: text = b.decode()
    except UnicodeDecodeError as e: return f"{path}: not UTF-8: {e}"
    found = STEERS.search(text)
    return f"{path}: {text[max(0, found.start() - 60):found.end() + 20]!r}" if found else None

class Page(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.scripts, self.handlers, self.addresses, self.policies, self.codes, self.inside = [], [], [], [], [], None
        self.feed(text)
    def handle_starttag(self, tag, attributes):
        if tag in ("script", "iframe", "object", "embed", "base", "form"): self.scripts.append((tag, tuple(attributes)))
        for key, value in attributes:
            if key.startswith("on"): self.handlers.append((tag, key, value))
            if re.match(r"\s*(javascript|vbscript|data:text)", value or "", re.I): self.addresses.append((tag, key, value))
        if tag == "meta" and ("http-equiv", "Content-Security-Policy") in attributes: self.policies.append(dict(attributes)["content"])
        if tag in ("code", "pre"): self.inside = tag; self.codes.append("")
    handle_startendtag = handle_starttag
    def handle_endtag(self, tag):
        if tag == self.inside: self.inside = None
    def handle_data(self, data):
        if self.inside: self.codes[-1] += data

def compare(honest, hostile):
    a, b = Page(open(honest).read()), Page(open(hostile).read())
    for what in ("scripts", "handlers", "addresses"):
        more = [x for x in getattr(b, what) if x not in getattr(a, what)]
        if more or len(getattr(b, what)) > len(getattr(a, what)): return f"{hostile}: {what}: {more or getattr(b, what)}"
    for page, name in ((a, honest), (b, hostile)):
        if len(page.policies) != 1 or "default-src 'none'" not in page.policies[0]: return f"{name}: no content security policy"
        if "script-src" in page.policies[0] and "unsafe" in page.policies[0].split("script-src")[1].split(";")[0]: return f"{name}: {page.policies}"

def title(path, number, before):
    text = re.sub("[\n]", "?", TEXTS[int(number)].decode("utf-8", "replace"))
    found = [html.unescape(re.sub("<[^>]*>", "", x)) for x in re.findall(r"<text[^>]*>(.*?)</text>", open(path).read(), re.S)]
    if not any(x.startswith((before + text)[:14].rstrip()) for x in found): return f"{path}: no {before + text} among {found}"

def sound(path):
    lines = [line for code in Page(open(path).read()).codes for line in code.splitlines() if line.startswith("maxlogit ")]
    if not lines: return f"{path}: no commands"
    for line in lines:
        lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        lexer.commenters = ""
        for word in lexer:
            if re.fullmatch(r"[();<>|&]+", word): return f"{path}: an unquoted {word} in: {line}"
        if re.search(r"[`$]", re.sub(r"'[^']*'", "", line)): return f"{path}: not quoted: {line}"

def main(how, *words):
    wrong = []
    if how == "runs":
        for i, text in enumerate(TEXTS): edited(words[0], f"{words[1]}/{i}.h5", fill(text, i))
    elif how == "unit": edited(words[0], words[1], long_unit)
    elif how == "ledger": json.dump(spoil(json.load(open(words[0]))), open(words[1], "w"))
    elif how == "look": wrong = [x for x in map(look, words) if x]
    elif how == "page": wrong = [x for x in [compare(*words)] if x]
    elif how == "title": wrong = [x for x in [title(*words)] if x]
    elif how == "sound": wrong = [x for x in [sound(words[0])] if x]
    for x in wrong: print(ascii(x))
    return bool(wrong)

if __name__ == "__main__": sys.exit(main(*sys.argv[1:]))
