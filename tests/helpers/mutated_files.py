"""Random damage to files: to their bytes, to values in JSON, and to `.safetensors` files with a valid checksum."""

import copy
import functools
import hashlib
import json
import random
import re
import struct
import zlib
from collections.abc import Callable, Iterator, MutableMapping, MutableSequence
from typing import Any

import torch
from safetensors.torch import load

from condvae.weights import packing

Change = Callable[[bytes, random.Random], bytes]

LENGTHS = (0, 1, 2, 255, 2**15, 2**16 - 1, 30_000, 2**28, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**63 - 1, 2**64 - 1)
_NUMBERS = ("0", "-1", "1", "255", "65536", "10000000", "1000000000000", "1e308", "-1e999", "NaN", "9" * 30, "9" * 5000)
_NEST = "@nest@"
_EXTREMES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2, 7, 3.5, 1e-320, 1e308, float("inf"), float("nan"), 10**7, 10**9, 2**31, 10**12),
    *(
        2**63,
        10**20,
        10**30,
        10**400,
        "",
        "x",
        "0",
        "name",
        "\x1b[31mred\x1b[0m",
        "a\nb\rc",
        "\ud800",
        "\x00",
        "../../x",
    ),
    *("x" * 500, "x" * 20_000, [], {}, [[]], [None], {"": None}, [1] * 50, ["x"] * 3000, _NEST),
)


def mutated_bytes(content: bytes, chance: random.Random, other: bytes = b"") -> bytes:
    """Return the content with some random damage. other: a second file, of which parts may be copied."""
    data = bytearray(content)
    for _ in range(chance.choice((1, 1, 2, 4, 16))):
        if not data:
            return chance.randbytes(chance.choice((0, 1, 40)))
        at = chance.randrange(len(data))
        way = chance.randrange(11)
        if way == 0:
            data[at] ^= 1 << chance.randrange(8)
        elif way == 1:
            data[at] = chance.choice((0, 1, 127, 128, 255))
        elif way == 2:  # the header, with sizes and types
            data[chance.randrange(min(64, len(data)))] = chance.randrange(256)
        elif way == 3:
            del data[at:]
        elif way == 4:
            data[at:at] = chance.randbytes(chance.choice((1, 4, 50)))
        elif way == 5:
            del data[at : at + chance.choice((1, 4, 50))]
        elif way == 6:  # a length
            kind = chance.choice(("B", "H", "I", "Q"))
            number = chance.choice(LENGTHS) % 2 ** (8 * struct.calcsize(kind))
            data[at : at + struct.calcsize(kind)] = struct.pack(chance.choice("<>") + kind, number)
        elif way == 7:  # repeat a part
            part = data[at : at + chance.choice((1, 8, 100))]
            data[at:at] = part * chance.choice((1, 3, 200))
        elif way == 8 and other:  # a part of another file
            start = chance.randrange(len(other))
            data[at : at + chance.choice((0, 8, 100))] = other[start : start + chance.choice((8, 100, 1000))]
        elif way == 9:
            data[at : at + 1] = chance.choice(_NUMBERS).encode()
        else:
            data[at:] = chance.randbytes(min(len(data) - at, 200))
    return bytes(data)


def mutated_text(content: bytes, chance: random.Random) -> bytes:
    """Change a number of a text, nest brackets or braces in it, or damage its bytes."""
    way = chance.randrange(5)
    text = content.decode("latin1")
    if way == 0 and (found := list(re.finditer(r"-?\d+(\.\d+)?", text))):
        one = chance.choice(found)
        return (text[: one.start()] + chance.choice(_NUMBERS) + text[one.end() :]).encode("latin1")
    if way == 1:
        at, deep = chance.randrange(len(text) + 1), chance.choice((3, 60, 900, 20_000))
        first, last = chance.choice((("[", "]"), ('{"a":', "}")))
        return (text[:at] + first * deep + "0" + last * deep + text[at:]).encode("latin1")
    return mutated_bytes(content, chance)


def mutated_json(content: bytes, chance: random.Random) -> bytes:
    """Change some values of a JSON text, so that it stays valid; sometimes damage the text instead."""
    if chance.random() < 0.25:
        return mutated_text(content, chance)
    return json_text(mutated_value(json.loads(content), chance), chance).encode("utf-8", "surrogatepass")


def mutated_value(value: Any, chance: random.Random) -> Any:
    """Return JSON data with a few values replaced, removed, renamed or repeated."""
    holder = [value]
    for _ in range(chance.choice((1, 1, 1, 2, 5))):
        places = list(_places(holder))
        container, key = chance.choice(places)
        way = chance.randrange(8)
        if way <= 3:
            container[key] = copy.deepcopy(chance.choice(_EXTREMES))
        elif way == 4 and isinstance(container[key], int | float) and abs(container[key]) < 2**60:
            container[key] = int(container[key]) + chance.choice((-1, 1, 2, 1000))
        elif way == 5 and container is not holder:
            del container[key]
        elif way == 6 and isinstance(container, dict):
            container[chance.choice(("", "x", "name", "\x1b[2J", "k" * 1000))] = container.pop(key)
        elif isinstance(container[key], list):
            container[key] = container[key] * chance.choice((2, 40))
        else:
            source, other = chance.choice(places)
            container[key] = json.loads(json.dumps(source[other]))
        if not holder:
            holder = [None]
    return holder[0]


def json_text(value: Any, chance: random.Random) -> str:
    deep = chance.choice((5, 60, 900, 20_000))
    return json.dumps(value).replace(f'"{_NEST}"', "[" * deep + "]" * deep)


def _places(container: Any, depth: int = 0) -> Iterator[tuple[Any, Any]]:
    """Yield (container, key) of every value in nested lists and mappings."""
    keys: Any = ()
    if isinstance(container, MutableMapping):
        keys = list(container)
    elif isinstance(container, MutableSequence):
        keys = range(min(len(container), 50))
    for key in keys:
        yield container, key
        if depth < 8:
            yield from _places(container[key], depth + 1)


def mutated_png(content: bytes, chance: random.Random) -> bytes:
    """Damage an image file. Correct the checksums of a PNG in every other case, so that decoders read on."""
    damaged = mutated_bytes(content, chance)
    return _png_with_checksums(damaged) if chance.random() < 0.5 else damaged


def _png_with_checksums(content: bytes) -> bytes:
    if not content.startswith(b"\x89PNG\r\n\x1a\n"):
        return content
    parts, at = [content[:8]], 8
    while at + 12 <= len(content):
        length = int.from_bytes(content[at : at + 4], "big")
        if at + 12 + length > len(content):
            break
        body = content[at + 4 : at + 8 + length]
        parts.append(content[at : at + 4] + body + zlib.crc32(body).to_bytes(4, "big"))
        at += 12 + length
    return b"".join(parts) + content[at:]


def mutated_sealed(content: bytes, chance: random.Random) -> bytes:
    """Change a `.safetensors` file of condvae. In most cases, its checksum is corrected, so that readers go on."""
    way = chance.randrange(8)
    if way == 0:
        return mutated_bytes(content, chance)
    head, data = _split(content)
    metadata = head["__metadata__"]
    seal = True
    if way <= 4:  # the description
        metadata["model"] = json_text(mutated_value(json.loads(metadata["model"]), chance), chance)
    elif way == 5:  # its text
        metadata["model"] = mutated_text(metadata["model"].encode(), chance).decode("latin1")
    elif way == 6:  # names, types, shapes and places of tensors
        changed = mutated_value({name: one for name, one in head.items() if name != "__metadata__"}, chance)
        head = {"__metadata__": metadata, **(changed if isinstance(changed, dict) else {"x": changed})}
    else:  # the kind and the version
        values = ("", "1", "2", "3", "4", "condvae", "condvae\x1b[2J", "9" * 10**6)
        metadata[chance.choice(list(metadata))] = chance.choice(values)
        seal = chance.random() < 0.5
    if seal:
        description = metadata.get("model", "").encode("utf-8", "replace")
        tail = _packed_tail(content) if "packed.index" in head else _plain_tail(head, data)
        metadata["sha256"] = hashlib.sha256(description + tail).hexdigest()
    text = json_text(head, chance).encode("utf-8", "surrogatepass")
    return struct.pack("<Q", len(text)) + text + data


def _split(content: bytes) -> tuple[dict[str, Any], bytes]:
    length = struct.unpack("<Q", content[:8])[0]
    return json.loads(content[8 : 8 + length]), content[8 + length :]


def _plain_tail(head: dict[str, Any], data: bytes) -> bytes:
    """Return what follows the description in the checksum of a plain file; b"" if that cannot be known."""
    try:
        places = {name: head[name]["data_offsets"] for name in sorted(head) if name != "__metadata__"}
        return b"".join(name.encode() + data[first:last] for name, (first, last) in places.items())
    except (KeyError, TypeError, ValueError):
        return b""


@functools.lru_cache(maxsize=16)
def _packed_tail(content: bytes) -> bytes:
    """Return what follows the description in the checksum of a packed file."""
    tensors = packing.unpack(load(content))
    content_of = {name: tensor.contiguous().reshape(-1).view(torch.uint8) for name, tensor in tensors.items()}
    return b"".join(name.encode() + content_of[name].numpy().tobytes() for name in sorted(tensors))
