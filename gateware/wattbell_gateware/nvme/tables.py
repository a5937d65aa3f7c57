"""What the tracker has to know of NVMe, from the specification in `spec/`."""

from __future__ import annotations

from wattbell_spec.nvme import LBA_OPCODES, admin, feature, io

IDENTIFY, SET_FEATURES, GET_FEATURES = admin("identify"), admin("set_features"), admin("get_features")
DOORBELL_BUFFER_CONFIG = admin("doorbell_buffer_config")
CREATE_SQ, CREATE_CQ, DELETE_SQ, DELETE_CQ = (admin(name) for name in ("create_io_sq", "create_io_cq", "delete_io_sq", "delete_io_cq"))
MARKER_FID, POWER_FID = feature("marker"), feature("power_management")
DSM = io("dsm")
LBA = LBA_OPCODES
