"""Writers of notes."""
