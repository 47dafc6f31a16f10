"""Every Redis key name, nowhere else.

PREFIX:shards                  hash: shard -> format of its layout
PREFIX:{SHARD}:meta            hash: epoch, offset, generation, owner, and what a commit is checked by
PREFIX:{SHARD}:state           hash: key -> value
PREFIX:{SHARD}:letters         sorted set: the dead letters, by offset and part

The braces are a hash tag: a Cluster keeps the keys of one shard in one slot, so one script may change them.
"""

from urllib.parse import quote

from streamrank.errors import ConfigError, StoreError


class Keys:
    """The names under one prefix; several stores share a Redis by having a prefix each.

    >>> keys = Keys("streamrank")
    >>> keys.shards
    'streamrank:shards'
    >>> keys.of_shard("clicks[0]")
    ('streamrank:{clicks[0]}:meta', 'streamrank:{clicks[0]}:state', 'streamrank:{clicks[0]}:letters')
    """

    def __init__(self, prefix: str) -> None:
        if not prefix or set(prefix) & set("{}"):
            raise ConfigError(f"redis.prefix is {prefix!r}: it cannot be empty, nor hold a brace")
        self.shards = f"{prefix}:shards"
        self._prefix = prefix

    def of_shard(self, shard: str) -> tuple[str, str, str]:
        """The keys of meta, state and letters."""
        # a brace would end the tag and an empty tag is none; a lone % is no name's, since % is written %25
        try:
            tag = quote(shard, safe=" !\"#$&'()*+,-./:;<=>?@[\\]^_`|~") or "%"
        except UnicodeEncodeError as error:
            raise StoreError(f"shard {shard!r}: {error}: give it a name that can be written") from error
        stem = f"{self._prefix}:{{{tag}}}"
        return f"{stem}:meta", f"{stem}:state", f"{stem}:letters"


def letter_place(offset: int, part: int) -> bytes:
    """What the member of a dead letter begins with; members are sorted as bytes.

    >>> letter_place(17, 0)
    b'00000000000000000017.0000000000 '
    """
    return b"%020d.%010d " % (offset, part)
