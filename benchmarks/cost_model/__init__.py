"""A model of time, memory, network and storage, held against what was measured."""
