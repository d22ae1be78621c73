"""OpenTelemetry: a collector of its own protocol's Python package gets the spans, and an instrumented driver is their parent."""

from __future__ import annotations

import json
import subprocess

from .served import Served
from .server import Server, free_port
from .tools import environment

PACKAGES = [
    "grpcio", "opentelemetry-proto", "opentelemetry-sdk", "opentelemetry-instrumentation-psycopg", "psycopg[binary]",
]
#: Prints the spans that arrive until its input ends, an object a line.
COLLECTOR = """
import json, sys
from concurrent import futures
import grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as messages, trace_service_pb2_grpc as service

def values(attributes):
    return {a.key: getattr(a.value, a.value.WhichOneof("value")) for a in attributes}

class Collector(service.TraceServiceServicer):
    def Export(self, request, context):
        for of in request.resource_spans:
            for span in [span for scope in of.scope_spans for span in scope.spans]:
                print(json.dumps({
                    "service": values(of.resource.attributes)["service.name"], "name": span.name, "kind": span.kind,
                    "trace": span.trace_id.hex(), "span": span.span_id.hex(), "parent": span.parent_span_id.hex(),
                    "start": span.start_time_unix_nano, "end": span.end_time_unix_nano,
                    "attributes": values(span.attributes), "status": [span.status.code, span.status.message],
                }), flush=True)
        return messages.ExportTraceServiceResponse()

server = grpc.server(futures.ThreadPoolExecutor(2))
service.add_TraceServiceServicer_to_server(Collector(), server)
assert server.add_insecure_port("127.0.0.1:" + sys.argv[1])
server.start()
print("ready", flush=True)
sys.stdin.read()
server.stop(1).wait()
"""
#: Sends statements with spans of its own, and prints their trace.
CLIENT = """
import sys, psycopg
from opentelemetry import trace
from opentelemetry.instrumentation.psycopg import PsycopgInstrumentor
from opentelemetry.sdk.trace import TracerProvider

trace.set_tracer_provider(TracerProvider())
PsycopgInstrumentor().instrument(enable_commenter=True)
with psycopg.connect(host="127.0.0.1", port=int(sys.argv[1]), user="ann", dbname="db", autocommit=True) as connection:
    with trace.get_tracer("check").start_as_current_span("panel") as panel:
        print(f"{panel.get_span_context().trace_id:032x}")
        connection.execute("SELECT count(*) FROM lineitem WHERE l_quantity > 49.5 AND l_shipmode = 'secret'").fetchall()
        connection.execute("SELECT n_name FROM nation WHERE n_nationkey = %s", [7]).fetchall()
        try:
            connection.execute("SELECT nothing FROM nation")
        except psycopg.Error:
            pass
"""


class Traces(Served):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        port = free_port()
        cls.python = environment("opentelemetry", PACKAGES) / "python"
        cls.collector = subprocess.Popen(
            [cls.python, "-c", COLLECTOR, str(port)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        cls.addClassCleanup(cls.collector.kill)
        assert cls.collector.stdout.readline() == "ready\n"
        cls.server = Server("--traces", f"http://127.0.0.1:{port}", "--log-format", "json", data=cls.data)
        cls.addClassCleanup(cls.server.stop)

    def test_statements_are_spans_below_those_of_the_client(self):
        done = subprocess.run(
            [self.python, "-c", CLIENT, str(self.server.port)], capture_output=True, text=True, timeout=120
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        log = [json.loads(line) for line in self.server.said().splitlines() if line.startswith("{")]
        ended = [line for line in log if line["message"] == "statement ended"]
        self.assertEqual([(line["user"], line["rows"], line["code"]) for line in ended], [("ann", 1, "00000")] * 2)
        # It sends what it has left.
        self.server.stop()
        spans = [json.loads(line) for line in self.collector.communicate("", timeout=60)[0].splitlines()]
        spans = [span for span in spans if span["trace"] == done.stdout.strip()]
        statements = {span["attributes"]["db.query.text"]: span for span in spans if span["kind"] == 2}
        self.assertEqual(set(statements), {
            "SELECT count(*) FROM lineitem WHERE l_quantity > ? AND l_shipmode = ?",
            "SELECT n_name FROM nation WHERE n_nationkey = $1",
            "SELECT nothing FROM nation",
        })
        self.assertEqual(len({span["parent"] for span in statements.values()}), 3, "each has a span of the client")
        for text, span in statements.items():
            attributes = span["attributes"]
            self.assertEqual((span["service"], span["name"], attributes["user.name"]), ("coscan", "SELECT", "ann"))
            below = [inner for inner in spans if inner["parent"] == span["span"]]
            if "nothing" in text:
                self.assertEqual(attributes["db.response.status_code"], "42703")
                self.assertEqual(span["status"], [2, 'column "nothing" does not exist'])
                self.assertEqual(below, [])
                continue
            self.assertEqual(attributes["db.response.returned_rows"], 1)
            self.assertIn(attributes["coscan.query"], [line["query"] for line in ended])
            names = [inner["name"] for inner in below]
            self.assertEqual(names[:4], ["plan", "wait for a turn", "optimize", "execute"])
            scans = [inner["attributes"]["db.collection.name"] for inner in below if inner["name"] == "scan"]
            self.assertEqual(scans, ["lineitem" if "lineitem" in text else "nation"])
            for inner in below:
                self.assertLessEqual(inner["start"], inner["end"])
                self.assertLessEqual(span["start"] - 2_000_000, inner["start"])
                self.assertLessEqual(inner["end"], span["end"] + 2_000_000)
