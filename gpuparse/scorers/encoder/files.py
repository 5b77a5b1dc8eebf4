"""Names of models with an encoder, and the texts of it in their folders.

Apart from what reads them, so that other models are loaded without that.
"""

KIND = "encoder"
CONFIG, TOKENIZER = "encoder.json", "encoder-tokenizer.json"
MOST_BYTES = {CONFIG: 1 << 20, TOKENIZER: 1 << 27}
