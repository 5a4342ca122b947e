"""From stored bytes to the values of samples: decoding, with the transforms that are fused into it, and all others."""
