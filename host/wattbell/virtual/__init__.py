"""The virtual rig and the drive model: their programs as processes, and what they play recorded like a real rig."""
