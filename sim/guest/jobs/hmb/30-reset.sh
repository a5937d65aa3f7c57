# The memory that Linux lends the drive before and after a controller reset: each answer is /out/script-hmb-NAME.txt.
D=/dev/nvme0
shown() { nvme get-feature $D --feature-id=0x0d 2>&1 | head -n 3 > "/out/script-hmb-$1.txt"; }
shown before
nvme id-ctrl $D --raw-binary > /out/script-identify.bin 2> /dev/null
nvme reset $D
shown after
true
