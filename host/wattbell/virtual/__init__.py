"""The virtual rig and the drive model, run as processes and recorded like a real rig."""
