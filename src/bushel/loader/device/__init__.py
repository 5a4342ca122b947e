"""Decoding of images on a device, beside the processor."""
