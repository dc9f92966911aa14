"""Checks `warpbell files import s3://...` against moto's server, through a proxy that spoils connections."""

import json
import logging
import os
import pathlib
import random
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

import boto3
from boto3.s3.transfer import TransferConfig
from moto.server import ThreadedMotoServer

BUCKET = "data-sets"
SEED = 11


class Proxy:
    """Passes connections on to `port`. What it does to them is chosen by `mode`."""

    def __init__(self, port):
        self.port, self.mode, self.random = port, "plain", random.Random(SEED)
        self.cuts = self.bytes = 0
        self.silent = threading.Event()
        self.lock = threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def set(self, mode):
        self.silent.clear()
        self.mode, self.bytes = mode, 0

    def accept(self):
        while True:
            client, _ = self.listener.accept()
            with self.lock:
                # Bytes after which the connection is cut: seldom at once, mostly in the middle of a body.
                budget = self.random.choice([0, self.random.randrange(2000), *[self.random.randrange(1 << 22)] * 6])
            if self.mode == "gone":
                self.cut(client)
                continue
            server = socket.create_connection(("127.0.0.1", self.port))
            threading.Thread(target=self.pass_on, args=(client, server), daemon=True).start()
            threading.Thread(target=self.pass_back, args=(server, client, budget), daemon=True).start()

    @staticmethod
    def cut(*sockets):
        for one in sockets:
            try:
                one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                one.shutdown(socket.SHUT_RDWR)
                one.close()
            except OSError:
                pass

    def pass_on(self, source, to):
        try:
            while data := source.recv(1 << 16):
                to.sendall(data)
        except OSError:
            pass
        self.cut(source, to)

    def pass_back(self, source, to, budget):
        passed = 0
        try:
            while data := source.recv(1 << 16):
                if self.mode == "hushing" and self.bytes > 1_000_000:
                    self.mode = "silent"
                while self.mode == "silent":
                    self.silent.set()
                    time.sleep(0.02)
                if self.mode == "cutting" and passed + len(data) > budget:
                    to.sendall(data[: budget - passed])
                    self.cuts += 1
                    break
                if self.mode == "flipping" and passed > 1 << 17:
                    data = bytes([data[0] ^ 1]) + data[1:]
                    self.mode = "plain"
                to.sendall(data)
                passed += len(data)
                self.bytes += len(data)
                if self.mode == "going" and self.bytes > 9_000_000:
                    self.mode = "gone"
                if self.mode == "gone":
                    break
        except OSError:
            pass
        self.cut(source, to)


class Check:
    def __init__(self, command, folder):
        self.command, self.folder = command, pathlib.Path(folder)
        self.passed = self.failed = 0
        self.server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        self.server.start()
        host, port = self.server.get_host_and_port()
        self.proxy = Proxy(port)
        secrets = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_REGION": "us-east-1"}
        self.env = os.environ | secrets | {"AWS_ENDPOINT_URL": self.proxy.url, "AWS_ALLOW_HTTP": "true"}
        self.s3 = boto3.client(
            "s3",
            endpoint_url=f"http://{host}:{port}",
            region_name="us-east-1",
            aws_access_key_id="test",
            aws_secret_access_key="test",
        )

    def check(self, name, right, seen=""):
        print(f"{'passed' if right else 'FAILED'}: {name}" + ("" if right else f": {seen}"), flush=True)
        self.passed, self.failed = self.passed + bool(right), self.failed + (not right)

    def bare(self, name):
        path = self.folder / name
        with open(path, "wb") as image:
            image.truncate(256 << 20)
        return path

    def arguments(self, source, image, *more):
        device = [f"soft:file={image}", f"--allow-write={image}"]
        return [self.command, "files", "import", source, *device, "-o", "json", *more]

    def run(self, arguments):
        done = subprocess.run(arguments, env=self.env, capture_output=True, text=True, timeout=120)
        return done.returncode, json.loads(done.stdout or "{}"), done.stderr

    def exported(self, image):
        to = self.folder / f"{image.name}.out"
        done = [self.command, "files", "export", "--force", f"soft:file={image}", "--to", to]
        subprocess.run(done, check=True, capture_output=True, timeout=120)
        return {str(path.relative_to(to)): path.read_bytes() for path in to.rglob("*") if path.is_file()}


def fill(check):
    """Objects, and their contents by the names that they are to get."""
    make = random.Random(SEED)
    check.s3.create_bucket(Bucket=BUCKET)
    wanted = {f"small/{index:02}": make.randbytes(index * 991) for index in range(40)}
    wanted |= {"plain": make.randbytes((12 << 20) + 1), "large": make.randbytes((30 << 20) + 12345)}
    for name, data in wanted.items():
        check.s3.put_object(Bucket=BUCKET, Key=f"set/a/{name}", Body=data)
    parts = TransferConfig(multipart_threshold=1, multipart_chunksize=8 << 20)
    file = check.folder / "large"
    file.write_bytes(wanted["large"])
    check.s3.upload_file(str(file), BUCKET, "set/a/large", Config=parts)
    check.s3.put_object(Bucket=BUCKET, Key="set/ab", Body=b"not below set/a/")
    return wanted


def whole(check, wanted):
    source, image = f"s3://{BUCKET}/set/a", check.bare("whole.img")
    check.proxy.set("cutting")
    code, said, error = check.run(check.arguments(source, image))
    cuts = check.proxy.cuts
    check.check(f"all objects come in, over {cuts} cut connections", code == 0 and cuts >= 10, (cuts, error))
    check.check("each has the bytes of its object", check.exported(image) == wanted, said)
    check.proxy.set("plain")
    code, said, _ = check.run(check.arguments(source, image))
    same = (code, said["same"], said["written"]) == (0, len(wanted), 0) and check.proxy.bytes < 100_000
    check.check("a second run fetches none", same, (said, check.proxy.bytes))
    wanted = wanted | {"small/05": b"changed"}
    check.s3.put_object(Bucket=BUCKET, Key="set/a/small/05", Body=b"changed")
    code, said, _ = check.run(check.arguments(source, image))
    check.check("a changed object replaces the old one", said["written"] == 1 and check.exported(image) == wanted, said)
    return wanted


def generation(image):
    """The number of the newest generation on the SSD; 0: there is no catalogue yet."""
    with open(image, "rb") as bytes_of:
        header = bytes_of.read(64)
        if header[:8] != b"WBELLCAT":
            return 0
        newest = 0
        for area in range(2):
            bytes_of.seek((1 << 20) + area * struct.unpack_from("<Q", header, 40)[0])
            head = bytes_of.read(16)
            newest = max(newest, struct.unpack_from("<Q", head, 8)[0] if head[:8] == b"WBELLGEN" else 0)
    return newest


def killed(check, wanted):
    source, image = f"s3://{BUCKET}/set/a", check.bare("killed.img")
    check.proxy.set("plain")
    arguments = check.arguments(source, image, "--commit-files", "1")
    child = subprocess.Popen(arguments, env=check.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while generation(image) < 3 and child.poll() is None:
        time.sleep(0.001)
    child.send_signal(signal.SIGKILL)
    ended = child.wait()
    code, said, error = check.run(arguments)
    kept = ended == -signal.SIGKILL and code == 0 and said["same"] >= 1 and said["written"] >= 1
    check.check("an import that was killed goes on where it was", kept, (ended, said, error))
    check.check("and ends with the bytes of all objects", check.exported(image) == wanted, said)


def spoiled(check):
    image = check.bare("spoiled.img")
    check.proxy.set("flipping")
    code, _, error = check.run(check.arguments(f"s3://{BUCKET}/set/a/plain", image))
    named = f"s3://{BUCKET}/set/a/plain is damaged: bytes 0 to 12582913 have MD5"
    check.check("a changed byte is noticed by the ETag", code == 1 and named in error, error)
    check.check("and the object is not there", check.exported(image) == {})
    check.proxy.set("going")
    code, _, error = check.run(check.arguments(f"s3://{BUCKET}/set/a/large", image))
    named = f"s3://{BUCKET}/set/a/large at byte "
    check.check("a server that goes away is named with object and byte", code != 0 and named in error, error)
    check.proxy.set("plain")
    code, _, error = check.run(check.arguments("s3://no-such-bucket/x", image))
    check.check("a bucket that is not there is named", code != 0 and "s3://no-such-bucket/x" in error, error)
    code, _, error = check.run(check.arguments(f"s3://{BUCKET}/nothing", image))
    check.check("a prefix without objects is named", code == 2 and "there is no file in it" in error, error)


def interrupted(check):
    """Ctrl-C while a connection is open and nothing comes: in the listing, and in the middle of an object."""
    for mode, what in (("silent", "the listing"), ("hushing", "an object")):
        check.proxy.set(mode)
        arguments = check.arguments(f"s3://{BUCKET}/set/a/large", check.bare(f"{mode}.img"))
        child = subprocess.Popen(arguments, env=check.env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        stalled = check.proxy.silent.wait(60)
        begin = time.monotonic()
        child.send_signal(signal.SIGINT)
        try:
            code = child.wait(20)
        except subprocess.TimeoutExpired:
            child.kill()
            code = None
        took = time.monotonic() - begin
        check.check(f"Ctrl-C ends an import whose server is silent in {what}", stalled and code == 130 and took < 5, (code, took))
        check.proxy.set("plain")


def proved(check):
    """Objects in parts: of usual lengths their ETag is compared, of others they are counted."""
    data = random.Random(SEED + 1).randbytes((17 << 20) + 5)
    file = check.folder / "parts"
    file.write_bytes(data)
    for name, length, unproved in (("eight", 8 << 20, 0), ("least", 9 << 20, 0), ("odd", (6 << 20) + 4321, 1)):
        parts = TransferConfig(multipart_threshold=1, multipart_chunksize=length)
        check.s3.upload_file(str(file), BUCKET, f"parts/{name}", Config=parts)
        image = check.bare(f"{name}.img")
        code, said, error = check.run(check.arguments(f"s3://{BUCKET}/parts/{name}", image))
        right = code == 0 and said["without_checksum"] == unproved and check.exported(image) == {name: data}
        check.check(f"an object in parts of {length} bytes: {unproved} without a checksum", right, (said, error))
    # A byte that changes on the way is a length that is not known, or damage.
    image = check.bare("parts.img")
    check.proxy.set("flipping")
    code, said, _ = check.run(check.arguments(f"s3://{BUCKET}/parts/eight", image))
    check.check("and one that was changed is not among those with one", code == 0 and said["without_checksum"] == 1, said)
    check.proxy.set("plain")
    code, said, _ = check.run(check.arguments(f"s3://{BUCKET}/set/a/plain", check.bare("none.img"), "--no-etag-check"))
    check.check("without the check none has one", code == 0 and said["without_checksum"] == 1, said)


def main():
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory() as folder:
        check = Check(sys.argv[1], folder)
        wanted = whole(check, fill(check))
        killed(check, wanted)
        spoiled(check)
        interrupted(check)
        proved(check)
        check.server.stop()
    print(f"{check.passed} passed, {check.failed} failed")
    sys.exit(check.failed > 0)


main()
