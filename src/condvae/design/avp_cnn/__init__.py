"""The classifier g(v | y), AVP-CNN: its network, its file format, its training and its calibration."""
