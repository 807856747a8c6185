// A stand-in for Web Serial: one port, whose bytes go to the test's server, and come from it.
"use strict";
(() => {
  let reader = null; // of the open port
  const listen = async () => {
    for (;;) {
      const bytes = new Uint8Array(await (await fetch("/serial")).arrayBuffer());
      if (bytes.length) reader?.enqueue(bytes);
    }
  };
  const port = {
    getInfo: () => ({}),
    getSignals: async () => ({}),
    setSignals: async () => {},
    addEventListener() {},
    removeEventListener() {},
    async open() {
      this.readable = new ReadableStream({
        start: (controller) => { reader = controller; },
        cancel: () => { reader = null; },
      });
      this.writable = new WritableStream({
        write: (bytes) => fetch("/serial", { method: "POST", body: bytes }),
      });
    },
    async close() {
      this.readable = this.writable = reader = null;
    },
  };
  const requestPort = async () => {
    listen();
    return port;
  };
  Object.defineProperty(navigator, "serial", { value: { requestPort } });
})();
