"""logs.py FOLDER: writes logs that somebody made to do harm. Each line of `texts` was slow or a traceback once."""

import io
import pathlib
import struct
import sys
import zipfile

TO = pathlib.Path(sys.argv[1])

texts = {
    "ok.jsonl": '{"step": 1, "loss": 1}\n',
    # time that grows with the square of a line, or faster
    "array.log": "{'loss': 1, 'x': array(" + ", a=1" * 20000 + "}\n",
    "quotes.log": "{'loss': " + "\\'" * 100000 + "}\n",
    "key.jsonl": '{"step": 1, "loss": 1, "' + "a1" * 100000 + '": 2}\n',
    "twice.jsonl": '{"step": 1, "loss": 1, ' + ", ".join(f'"k{i}": null' for i in range(200000)) + ', "k0": null}\n',
    "llm_c.log": "s:1 tel:1 " + "a" * 200000 + "\n",
    "megatron.log": " iteration 1/ 100 | " + "a" * 200000 + "\n iteration 1/ 100 | lm loss: 1 |\n",
    "validations.log": "validation loss at iteration 1 " * 20000 + "\niter 1: loss 1, time\n",
    "validation.log": "validation" * 20000 + " loss at iteration x\n iteration 1/ 100 | lm loss: 1 |\n",
    "maxtext.log": "completed step: 1, " + "a" * 200000 + "\ncompleted step: 1, loss: 1\n",
    "modded.log": "step:0/5 " + "a" * 200000 + "\nstep:0/5 loss:1\n",
    "nanogpt.log": "iter 1: " + "a " * 100000 + "\niter 1: loss 1, time\n",
    "nanochat.log": "step 1/2 (1%) | a" + " " * 200000 + "\nstep 1/2 (1%) | loss: 1\n",
    "titan.log": "step: 1  " + "a" * 200000 + "\nstep: 1  loss: 1\n",
    "nemo.log": "Training epoch 0, iteration 9/9 | " + "a" * 200000 + "\niter 1: loss 1, time\n",
    "bar.log": "5/9 [00:10<00:10, 2.0it/s, " + "a" * 200000 + "]\niter 1: loss 1, time\n",
    "ray.log": "(" + "pid=" * 50000 + "\niter 1: loss 1, time\n",
    "head.csv": "step," + ",".join(f"c{i}" for i in range(100000)) + ",c99999\n0" + ",1" * 100001 + "\n",
    "digits.log": "%|" + "1" * 200000 + "\niter 1: loss 1, time\n",
    # memory for what a few bytes state
    "places.jsonl": '{"step": 1, "loss": 1, "layers.60000.heads.60000.max_logit": 2}\n',
    # numbers that are none
    "bar_step.log": "5" * 5000 + "/9 [00:10<00:10, 2.0it/s, loss=1]\niter 1: loss 1, time\n",
    "bar_step_300.log": "5" * 400 + "/9 [00:10<00:10, 2.0it/s, loss=1]\niter 1: loss 1, time\n",
    "olmo.log": "[step=" + "9" * 5000 + "/7]\n    a=1\n",
    "name.jsonl": '{"step": 1, "loss": 1, "layers.' + "9" * 5000 + '.max_logit": 2}\n',
    # terminals
    "bidi.jsonl": '{"step": 1, "loss": 1, "a\\u202eb": 2, "x\\u2028y\\nz\\u001b[31m": 3}\n',
    "half.jsonl": '{"step": 1, "loss": 1, "\\ud800x": 2, "run": "\\udc80"}\n',
}
# 4,000 series, each with a NaN, of which no two exchange numbers
names = ["s" + chr(97 + i % 26) + chr(97 + i // 26 % 26) + chr(97 + i // 676) for i in range(4000)]
texts["gaps.csv"] = "step," + ",".join(names) + "\n0" + ",1" * 4000 + "\n1" + ",nan" * 4000 + "\n"
for name, text in texts.items():
    (TO / name).write_text(text)
(TO / "escape\x1b[31m.jsonl").write_text(texts["ok.jsonl"])
(TO / "mlflow/metrics").mkdir(parents=True)
(TO / "mlflow/metrics/loss").write_text("1 2 \u00b2\n")


def npy(descr: str, shape: str, data: bytes = b"") -> bytes:
    head = f"{{'descr': {descr!r}, 'fortran_order': False, 'shape': {shape}}}".encode()
    head += b" " * (63 - (len(head) + 10) % 64) + b"\n"
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(head)) + head + data


(TO / "empty.npy").write_bytes(npy("<f8", "(1000000000, 0)"))
(TO / "bool.npy").write_bytes(npy("<f8", "(True,)", bytes(8)))
(TO / "deep.npy").write_bytes(b"\x93NUMPY\1\0" + struct.pack("<H", 9000) + b"(" * 9000)
inside = io.BytesIO()
with zipfile.ZipFile(inside, "w") as file:
    file.writestr("loss.npy", npy("<f8", "(2,)", struct.pack("<2d", 0, 1)))
    file.writestr("step.npy", npy("<f8", "(2,)", struct.pack("<2d", 0, float("inf"))))
(TO / "inf.npz").write_bytes(inside.getvalue())


def varint(n: int) -> bytes:
    return bytes([n & 127 | 128]) + varint(n >> 7) if n > 127 else bytes([n])


def part(field: int, data: bytes) -> bytes:
    return varint(field << 3 | 2) + varint(len(data)) + data


table = list(range(256))
for _ in range(8):
    table = [n >> 1 ^ (0x82F63B78 if n & 1 else 0) for n in table]


def masked_crc32c(data: bytes) -> bytes:
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ table[(crc ^ byte) & 255]
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def event(value: bytes, step: bytes = b"\x10\x01") -> bytes:
    data = step + part(5, part(1, value))
    size = struct.pack("<Q", len(data))
    return size + masked_crc32c(size) + data + masked_crc32c(data)


scalar = part(1, b"loss") + b"\x15" + struct.pack("<f", 1)
tensor = part(1, b"x") + part(8, b"\x08\x01" + part(2, part(2, b"\x08" + varint(1 << 31))) + part(5, struct.pack("<f", 1)))
events = {
    "step_bytes": event(scalar, part(2, b"abc")),
    "step_large": event(scalar, b"\x10" + b"\xff" * 400 + b"\1"),
    "step_long": event(scalar, b"\x10" + b"\xff" * 2000000 + b"\1"),
    "step_below_0": event(scalar, b"\x10" + varint((1 << 64) - 1)),
    "tag": event(b"\x08\x05\x15" + bytes(4)),
    "half": event(part(1, b"x") + part(8, b"\x08\x13\x68" + varint(1 << 40))),
    "tensor": event(tensor),
}
for name, data in events.items():
    (TO / f"{name}.tfevents").write_bytes(event(scalar) + data)

# folders with links: out of the folder they lead to any file of the reader, inside it they are an author's order
OUT, SECRETS = TO.parent / "links", TO.parent / "secrets"
state = '{"log_history": [{"step": 1, "loss": 1.5}], "global_step": 1}\n'
(SECRETS / "checkpoint/metrics").mkdir(parents=True)
(SECRETS / "checkpoint/trainer_state.json").write_text(state)
(SECRETS / "checkpoint/metrics/loss").write_text("1 1.5 1\n")
(SECRETS / "checkpoint/events.tfevents").write_bytes(event(scalar))


def link(name: str, target: str) -> None:
    path = OUT / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(SECRETS.absolute() / "checkpoint" / target)


link("tensorboard/sub/events.tfevents", "events.tfevents")
link("trainer/trainer_state.json", "trainer_state.json")
link("checkpoints/checkpoint-9", "")
link("mlflow/metrics", "metrics")
link("mlflow_file/metrics/loss", "metrics/loss")
(TO.parent / "inside/real").mkdir(parents=True)
(TO.parent / "inside/real/trainer_state.json").write_text(state)
(TO.parent / "inside/checkpoint-9").symlink_to("real")
(TO.parent / "named").symlink_to("inside")
