"""USB 2.0 high speed: two serial ports (CDC-ACM) over a ULPI PHY, on LUNA's device."""

import warnings

from amaranth import Array, DomainRenamer, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from ..queue import CrossingQueue
from ..stream.writer import OUT_WORD

with warnings.catch_warnings():
    # LUNA 0.2.3 is written for Amaranth 0.4's records, which 0.5 still has and says so. Warnings of our own stay errors.
    warnings.simplefilter("ignore", DeprecationWarning)
    from luna.gateware.usb.devices.acm import ACMRequestHandlers
    from luna.gateware.usb.usb2.device import USBDevice
    from luna.gateware.usb.usb2.endpoints.stream import USBStreamInEndpoint, USBStreamOutEndpoint
    from luna.gateware.usb.usb2.request import StallOnlyRequestHandler
    from usb_protocol.emitters import DeviceDescriptorCollection
    from usb_protocol.emitters.descriptors import cdc
    from usb_protocol.types import USBRequestType

__all__ = ["PACKET", "BytePacker", "UsbPorts", "descriptors"]

VENDOR_ID, PRODUCT_ID = 0x1209, 0x0001
"""Test number of pid.codes: not for devices that leave the lab."""
PRODUCT = "Wattbell"
"""Product string by which the host finds rigs (host/wattbell/rig/discovery.py)."""
PACKET = 512
"""Bytes of a bulk packet of high speed. Full speed (64) is not offered: it could not carry the stream."""
IDLE_CLOCKS = 7500
"""Clocks of the 60 MHz (125 us, a microframe) without a new byte after which a short packet is sent."""
DATA, CONTROL = 0, 1
"""The first port carries blocks, the second SCPI."""


class BytePacker(wiring.Component):
    """Splits words into bytes, low byte first, one a clock, and decides when to send a short packet.

    Ports
    -----
    words : the instrument's ``out``.
    bytes : to an endpoint.
    flush : high for one clock, 125 us after the last byte.
    """

    words: In(stream.Signature(OUT_WORD))
    bytes: Out(stream.Signature(8))
    flush: Out(1)

    def __init__(self, idle_clocks: int = IDLE_CLOCKS):
        self._idle_clocks = idle_clocks
        super().__init__()

    def elaborate(self, platform):
        m = Module()
        which = Signal(2)
        idle = Signal(range(self._idle_clocks + 1), init=self._idle_clocks)
        word = self.words.payload.data
        m.d.comb += [
            self.bytes.valid.eq(self.words.valid),
            self.bytes.payload.eq(Array(word[8 * n :][:8] for n in range(4))[which]),
            self.words.ready.eq(self.bytes.ready & (which == 3)),
            self.flush.eq(idle == self._idle_clocks - 1),
        ]
        with m.If(self.bytes.valid & self.bytes.ready):
            m.d.sync += [which.eq(which + 1), idle.eq(0)]
        with m.Elif(idle != self._idle_clocks):
            m.d.sync += idle.eq(idle + 1)
        return m


def descriptors(serial: str) -> DeviceDescriptorCollection:
    """Return the descriptors of two CDC-ACM functions.

    Interfaces 0 and 1 carry data (endpoints 2 in and out), 2 and 3 control (endpoints 4).
    """
    collection = DeviceDescriptorCollection()
    with collection.DeviceDescriptor() as device:
        device.bcdUSB = 2.00
        # Functions of more than one interface are announced by association (USB ECN of 2003: class EFh, 2, 1).
        device.bDeviceClass, device.bDeviceSubclass, device.bDeviceProtocol = 0xEF, 0x02, 0x01
        device.idVendor, device.idProduct = VENDOR_ID, PRODUCT_ID
        device.iManufacturer, device.iProduct, device.iSerialNumber = "Wattbell", PRODUCT, serial
        device.bNumConfigurations = 1
    with collection.ConfigurationDescriptor() as configuration:
        for port in (DATA, CONTROL):
            first = 2 * port
            with configuration.InterfaceAssociationDescriptor() as association:
                association.bFirstInterface, association.bInterfaceCount = first, 2
                association.bFunctionClass, association.bFunctionSubClass, association.bFunctionProtocol = 0x02, 0x02, 0x01
            with configuration.InterfaceDescriptor() as interface:
                interface.bInterfaceNumber = first
                interface.bInterfaceClass, interface.bInterfaceSubclass, interface.bInterfaceProtocol = 0x02, 0x02, 0x01
                interface.add_subordinate_descriptor(cdc.HeaderDescriptorEmitter())
                union = cdc.UnionFunctionalDescriptorEmitter()
                union.bControlInterface, union.bSubordinateInterface0 = first, first + 1
                interface.add_subordinate_descriptor(union)
                call = cdc.CallManagementFunctionalDescriptorEmitter()
                call.bDataInterface = first + 1
                interface.add_subordinate_descriptor(call)
                with interface.EndpointDescriptor() as endpoint:
                    endpoint.bEndpointAddress = 0x80 | first + 1
                    endpoint.bmAttributes, endpoint.wMaxPacketSize, endpoint.bInterval = 0x03, 8, 11
            with configuration.InterfaceDescriptor() as interface:
                interface.bInterfaceNumber = first + 1
                interface.bInterfaceClass, interface.bInterfaceSubclass, interface.bInterfaceProtocol = 0x0A, 0, 0
                for address in (0x80 | first + 2, first + 2):
                    with interface.EndpointDescriptor() as endpoint:
                        endpoint.bEndpointAddress, endpoint.wMaxPacketSize = address, PACKET
    return collection


class UsbPorts(wiring.Component):
    """USB device with a data port and a control port. Domains ``sync`` and ``usb`` (60 MHz, from the PHY).

    If no host reads, blocks wait in the instrument, which counts the blocks it has to drop. Bytes that the host writes to the data
    port are discarded.

    Ports
    -----
    blocks : the instrument's ``out``, in ``sync``.
    console_in : bytes of the control port from the host, in ``sync``.
    console_out : bytes of the control port to the host, in ``sync``.
    """

    def __init__(self, ulpi, serial: str):
        self._ulpi, self._serial = ulpi, serial
        super().__init__(
            {
                "blocks": In(stream.Signature(OUT_WORD)),
                "console_in": Out(stream.Signature(8)),
                "console_out": In(stream.Signature(8)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.device = device = USBDevice(bus=self._ulpi, handle_clocking=False)
        control = device.add_standard_control_endpoint(descriptors(self._serial))
        control.add_request_handler(ACMRequestHandlers())
        control.add_request_handler(
            StallOnlyRequestHandler(lambda setup: (setup.type == USBRequestType.VENDOR) | (setup.type == USBRequestType.RESERVED))
        )
        m.d.comb += device.connect.eq(1)
        ins, outs = {}, {}
        for port in (DATA, CONTROL):
            notify = USBStreamInEndpoint(endpoint_number=2 * port + 1, max_packet_size=8)
            ins[port] = USBStreamInEndpoint(endpoint_number=2 * port + 2, max_packet_size=PACKET)
            outs[port] = USBStreamOutEndpoint(endpoint_number=2 * port + 2, max_packet_size=PACKET)
            for endpoint in (notify, ins[port], outs[port]):
                device.add_endpoint(endpoint)

        m.submodules.blocks = blocks = CrossingQueue(OUT_WORD, 512, writes="sync", reads="usb")
        m.submodules.packer = packer = DomainRenamer("usb")(BytePacker())
        connect(m, flipped(self.blocks), blocks.i)
        connect(m, blocks.o, packer.words)
        to_host = ins[DATA].stream
        m.d.comb += [
            to_host.payload.eq(packer.bytes.payload),
            to_host.valid.eq(packer.bytes.valid),
            packer.bytes.ready.eq(to_host.ready),
            ins[DATA].flush.eq(packer.flush),
            outs[DATA].stream.ready.eq(1),
        ]

        # Commands and answers are short: every available byte is sent at once.
        m.submodules.answers = answers = CrossingQueue(8, 512, writes="sync", reads="usb")
        m.submodules.commands = commands = CrossingQueue(8, 64, writes="usb", reads="sync")
        answer, command = ins[CONTROL], outs[CONTROL].stream
        connect(m, flipped(self.console_out), answers.i)
        connect(m, commands.o, flipped(self.console_in))
        m.d.comb += [
            answer.stream.payload.eq(answers.o.payload),
            answer.stream.valid.eq(answers.o.valid),
            answers.o.ready.eq(answer.stream.ready),
            answer.flush.eq(~answers.o.valid),
            commands.i.payload.eq(command.payload),
            commands.i.valid.eq(command.valid),
            command.ready.eq(commands.i.ready),
        ]
        return m
