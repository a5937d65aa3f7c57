"""Servers of a rig: its SCPI over TCP (:mod:`.bridge`), its stream as a logic analyser (:mod:`.sump`)."""
