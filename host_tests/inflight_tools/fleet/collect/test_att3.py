import pytest, time
from dev.reference.kinds import *
from dev.reference.properties import block
from dev.reference.wire import connack, disconnect, packet
from host_tests.inflight_tools.fleet.collect.collecting import publish, until
LEVEL_5 = ("--protocol-level", 5)
def at(broker): return "--broker", f"127.0.0.1:{broker.port}"
BOM = bytes.fromhex("1f")+ (lambda s: len(s).to_bytes(2,"big")+s)("\ufeffno".encode())
def blk(raw): return bytes([len(raw)])+raw
SC = {
 "connack_bom": lambda: packet(0x20, b"\0\x88"+blk(BOM)),
 "connack_ok_bom": lambda: packet(0x20, b"\0\0"+blk(BOM)),
 "connack_user_bom": lambda: packet(0x20, b"\0\0"+blk(b"\x26\0\x01a"+ (3).to_bytes(2,'big')+"\ufeff".encode())),
 "connack_badutf": lambda: packet(0x20, b"\0\0"+blk(b"\x1f\0\x01\xff")),
 "connack_unknownprop": lambda: packet(0x20, b"\0\0"+blk(b"\x7f\0")),
 "connack_badcode": lambda: packet(0x20, b"\0\x42\0"),
 "connack_l4": lambda: packet(0x20, b"\0\0"),
 "connack_l4_refuse": lambda: packet(0x20, b"\0\x01"),
 "connack_l4_refuse5": lambda: packet(0x20, b"\0\x05"),
 "connack_short": lambda: packet(0x20, b"\0"),
 "disc_bom": lambda: packet(0x20, b"\0\0\0")+packet(0xE0, b"\x8b"+blk(BOM)),
 "disc_badcode": lambda: packet(0x20, b"\0\0\0")+packet(0xE0, b"\x42\0"),
 "disc_empty": lambda: packet(0x20, b"\0\0\0")+packet(0xE0, b""),
 "disc_1": lambda: packet(0x20, b"\0\0\0")+packet(0xE0, b"\x8b"),
 "suback_bom": lambda: packet(0x20, b"\0\0\0")+packet(0x90, b"\0\x01"+blk(BOM)+b"\1"*8),
 "suback_badcode": lambda: packet(0x20, b"\0\0\0")+packet(0x90, b"\0\x01\0"+b"\x42"*8),
 "puback_badcode": lambda: packet(0x20, b"\0\0\0")+packet(0x90, b"\0\x01\0"+b"\1"*8)+packet(0x40, b"\0\x09\x42\0"),
 "auth": lambda: packet(0x20, b"\0\0\0")+packet(0xF0, b"\x18\0"),
}
@pytest.mark.parametrize("k", SC)
def test_x(scripted, collect, k):
    raw=SC[k]()
    seen=[]
    def script(b):
        for _ in range(2):
            b.called(); seen.append(1); b.send(raw)
            time.sleep(.3)
            b.cut()
    p = collect(*at(scripted), *LEVEL_5)
    try:
        with scripted.play(script): pass
    except BaseException as e: print("   script", type(e).__name__, str(e)[:100])
    out=p.output() if hasattr(p,"output") else ""
    out = out if isinstance(out,str) else str(out)
    print("CASE", k, "connects", len(seen), "alive", getattr(p,"alive",None), "TRACE" if "Traceback" in out else "", out[-300:].replace("\n"," | "))
