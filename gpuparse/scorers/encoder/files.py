"""What models with an encoder are known by, and the texts that their folders have of it.

Apart from what reads them, so that other models are loaded without that.
"""

KIND = "encoder"
CONFIG, TOKENIZER = "encoder.json", "encoder-tokenizer.json"
MOST_BYTES = {CONFIG: 1 << 20, TOKENIZER: 1 << 27}
