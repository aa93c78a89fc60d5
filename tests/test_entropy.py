"""Bits come from the kernel through AES-256-CTR, fail closed, and are never shared between processes (P11)."""

import json
import subprocess
import sys
import threading

import numpy as np
import pytest

import holdtrue as ht
from holdtrue import entropy
from holdtrue.entropy import KeyStream, SystemBits
from holdtrue.testing import SeededBits


def test_key_stream_is_aes_256_in_counter_mode():
    """NIST SP 800-38A, F.5.5: the key stream is what turns the plaintext into the ciphertext."""
    key = bytes.fromhex("603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4")
    counter = bytes.fromhex("f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff")
    plain = bytes.fromhex("6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51")
    cipher = bytes.fromhex("601ec313775789a5b7a7f504bbf3d228f443e3ca4d62b59aca84e990cacaf5c5")
    words = KeyStream(key, counter).words(4)
    assert words.tobytes() == bytes(a ^ b for a, b in zip(plain, cipher, strict=True))


def test_stream_does_not_depend_on_the_size_of_the_calls():
    one, many = SeededBits("cuts"), SeededBits("cuts")
    parts = [many.words(size) for size in (1, 3, 8192, 9000, 2804)]
    assert np.array_equal(one.words(20_000), np.concatenate(parts))


@pytest.mark.parametrize("given", [b"", b"short", bytes(31)])
def test_a_short_read_fails_closed(given):
    """P6: fewer bytes than asked for raise, and keep raising; nothing is released."""
    bits = SystemBits(read=lambda size: given[:size])
    for draw in (lambda: bits.words(1), bits.more):
        with pytest.raises(ht.ReleaseError, match="nothing is released"):
            draw()


def test_an_error_of_the_kernel_is_not_swallowed():
    def broken(_):
        raise OSError(5, "Input/output error")

    with pytest.raises(OSError, match="Input/output error"):
        SystemBits(read=broken).words(1)


def test_the_key_is_drawn_again_after_its_share_of_bytes(monkeypatch):
    reads = []

    def read(size):
        reads.append(size)
        return len(reads).to_bytes(1, "big") * size

    monkeypatch.setattr(entropy, "_SERVED_PER_KEY", 1 << 10)
    bits = SystemBits(read=read)
    first = bits.words(128)
    assert reads == [32, 16]
    second = bits.words(128)
    assert reads == [32, 16, 32, 16]
    assert not np.array_equal(first, second)
    assert entropy._ZEROS.count(0) == len(entropy._ZEROS)


def test_the_key_lasts_two_to_the_thirty_bytes():
    assert entropy._SERVED_PER_KEY == 2**30


def test_threads_never_share_a_word():
    bits = SystemBits()
    seen = []

    def draw():
        for _ in range(500):
            seen.append(bits.words(8))
            seen.append(np.array([bits.more()], dtype=np.uint64))

    threads = [threading.Thread(target=draw) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    words = np.concatenate(seen)
    assert words.size == 8 * 500 * 9
    assert np.unique(words).size == words.size


def test_threads_never_share_a_pooled_draw():
    mechanism = ht.Gaussian(sigma=2**50)
    seen = []
    threads = [threading.Thread(target=lambda: seen.extend([mechanism.release(0) for _ in range(3000)])) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == len(set(seen)) == 24_000


CHILDREN = """
import json, os, sys
import holdtrue as ht
from holdtrue.entropy import SYSTEM

mechanism = ht.Gaussian(sigma=2**50)

class Forgetful:
    # the planted fault: a buffer that is filled before the fork and knows nothing of it
    values = [int(word) for word in SYSTEM.words(64)]
    def draw(self):
        return self.values.pop()

forgetful = Forgetful()

def drawn(_=None):
    pooled = [mechanism.release(0) for _ in range(20)]
    vector = mechanism.release([0] * 20).tolist()
    words = [int(word) for word in SYSTEM.words(20)] + [SYSTEM.more() for _ in range(5)]
    return {"ours": pooled + vector + words, "control": [forgetful.draw() for _ in range(3)]}

def forked():
    drawn()  # warm: keys are set and the pool is full
    found = []
    for _ in range(4):
        reader, writer = os.pipe()
        if os.fork() == 0:
            os.write(writer, json.dumps(drawn()).encode())
            os._exit(0)
        os.wait()
        found.append(json.loads(os.read(reader, 1 << 20)))
    return [drawn(), *found]

def spawned():
    import multiprocessing
    drawn()
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        return [drawn(), *pool.map(drawn, range(6), chunksize=2)]

if __name__ == "__main__":
    print(json.dumps({"fork": forked, "spawn": spawned}[sys.argv[1]]()))
"""


@pytest.mark.parametrize("how", ["fork", "spawn"])
def test_children_never_share_a_draw(how, tmp_path):
    """P11: after fork and spawn no two processes draw the same number; a buffer that ignores forks is caught."""
    script = tmp_path / "children.py"
    script.write_text(CHILDREN)
    done = subprocess.run([sys.executable, str(script), how], capture_output=True, text=True, check=True, timeout=120)  # noqa: S603
    found = json.loads(done.stdout)
    ours = [value for process in found for value in process["ours"]]
    assert len(found) >= 5
    assert len(ours) == len(set(ours))
    if how == "fork":
        control = [tuple(process["control"]) for process in found[1:]]
        assert len(set(control)) == 1


def test_a_process_with_another_number_draws_a_new_key(monkeypatch):
    """A process copied without Python's fork hooks still has another process number."""
    bits = SystemBits()
    bits.words(1)
    stream = bits._stream
    mechanism = ht.Gaussian(sigma=2**50)
    mechanism.release(0)
    waiting = set(mechanism._buffer._values)
    monkeypatch.setattr("os.getpid", lambda: -2)
    bits.words(1)
    assert bits._stream is not stream
    mechanism.release(0)
    assert len(waiting) == 1023
    assert waiting.isdisjoint(mechanism._buffer._values)


def test_seeded_bits_repeat_and_system_bits_do_not():
    assert np.array_equal(SeededBits("a").words(100), SeededBits("a").words(100))
    assert not np.array_equal(SeededBits("a").words(100), SeededBits("b").words(100))
    assert not np.array_equal(SystemBits().words(100), SystemBits().words(100))


def test_the_two_streams_are_different():
    bits = SeededBits("streams")
    assert set(bits.words(1000).tolist()).isdisjoint(bits.more() for _ in range(1000))
