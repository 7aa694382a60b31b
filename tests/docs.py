"""docs.py FILE.md ...: runs every command of the documentation and compares its output.

Each file gets an empty folder, in which its blocks run in order. A block between ``` marks is handled by its language:
  console     lines `$ COMMAND`, each followed by its output (stdout and stderr), compared but for times
  sh          run as a whole; the exit status must be 0
  any other   ignored, unless a comment gives the name of a file to write it to
Comments on the line before a block:
  <!-- file: NAME -->     write the block to NAME, which later commands use
  <!-- status: N -->      the expected exit status of every command of the block
  <!-- needs: P ... -->   run only where the programs P are installed; numpy: where maxlogit import has it
  <!-- skip: REASON -->   do not run: a cluster, a GPU, root or the network is needed
DOCS_RENEW=1 writes the actual output into the files instead of comparing it; read every line that changes."""

import os
import re
import shutil
import subprocess
import sys
import tempfile

BLOCK = re.compile(r"(?P<marks>(?:^<!-- [^\n]* -->\n)*)^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.M | re.S)
MASKS = (r"\d+(\.\d+)? s\b", r" +\d+\.\d  (?=\S+[.=]\S)", r"\d{4}-\d\d-\d\dT[\d:]+Z")  # times, those in a table, dates
renew = bool(os.environ.get("DOCS_RENEW"))
top = os.path.abspath(os.environ.get("top_srcdir", "."))
build = os.path.abspath(os.environ.get("top_builddir", top))
bad = 0


def complain(place, text):
    global bad
    bad += 1
    print(f"{place}: {text}")


def masked(text):
    for mask in MASKS:
        text = re.sub(mask, "#", text)
    return re.sub(r"[ \t]+$", "", text, flags=re.M)


def run(command, folder):
    environment = dict(os.environ, PATH=build + ":" + os.environ["PATH"], HOME=folder, COLUMNS="100", LC_ALL="C.UTF-8",
                       MAXLOGIT_PLOTS=top + "/plots", MAXLOGIT_PAGE=top + "/page", NO_COLOR="1")
    done = subprocess.run(["bash", "-e", "-c", command], cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=600)
    output = re.sub(r"^\S+ left  step \d+/\d+ .*\n", "", done.stdout.decode(errors="replace"), flags=re.M)  # a slow machine's
    return done.returncode, output


def imports():
    """Whether `maxlogit import` has a Python with numpy."""
    return b"import needs" not in subprocess.run([build + "/maxlogit", "import", "/dev/null"], capture_output=True).stderr


def commands(text):
    """Of a console block: pairs of a command, continuation lines joined, and its output."""
    pairs = []
    for line in text.splitlines(keepends=True):
        if line.startswith("$ "):
            pairs.append([line[2:], ""])
        elif pairs and not pairs[-1][1] and pairs[-1][0].endswith("\\\n"):
            pairs[-1][0] += line
        elif pairs:
            pairs[-1][1] += line
    return pairs


def check(place, block, folder):
    """Runs one block and returns its text as it should be."""
    marks = dict(re.findall(r"<!-- (file|status|needs|skip): (.*?) -->", block["marks"]))
    text = block["text"]
    if "file" in marks:
        path = os.path.join(folder, marks["file"])
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(text)
        return text
    if block["language"] not in ("sh", "console"):
        return text
    absent = [p for p in marks.get("needs", "").split() if not (imports() if p == "numpy" else shutil.which(p))]
    if "skip" in marks or absent:
        print(f"{place}: skipped: {marks.get('skip') or 'not installed: ' + ' '.join(absent)}")
        return text
    status = int(marks.get("status", 0))
    if block["language"] == "sh":
        code, output = run(text, folder)
        if code != status:
            complain(place, f"exit status {code}\n{text}{output}")
        return text
    new = ""
    for command, expected in commands(text):
        code, output = run(command, folder)
        if code != status:
            complain(place, f"exit status {code}: {command}{output}")
        elif masked(output) != masked(expected) and not renew:
            complain(place, f"other output: {command}--- documented\n{expected}--- printed\n{output}---")
        new += "$ " + command + (expected if masked(output) == masked(expected) else output)
    return new or text


def check_file(name):
    with open(os.path.join(top, name)) as file:
        text = file.read()
    begun = text
    with tempfile.TemporaryDirectory() as folder:
        new, at = "", 0
        for block in BLOCK.finditer(text):
            place = f"{name}:{text.count(chr(10), 0, block.start('text'))}"
            changed = check(place, block, folder)
            new += text[at:block.start("text")] + changed
            at = block.end("text")
        new += text[at:]
    if renew and new != begun:
        with open(os.path.join(top, name), "w") as file:
            file.write(new)


for name in sys.argv[1:]:
    check_file(name)
sys.exit(bad > 0)
