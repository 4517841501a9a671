"""The classifier g(v | y), AVP-CNN: its network, its file, and how it is trained and calibrated."""
