"""A client that nobody here wrote: Python's gRPC against `ckn serve`."""

import json
import os
import subprocess
import sys
import unittest

import ckn_e2e
import grpc

ARGUMENTS = ckn_e2e.parse_arguments()
pb, pb_grpc = ckn_e2e.import_stubs(ARGUMENTS)

SIDE = 8  # of the tiny model's images


def some_pixels(seed):
    return bytes((seed * 97 + i * 31 + (i * i) % 61) % 256 for i in range(SIDE * SIDE))


class PythonClientTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = ckn_e2e.temporary_folder()
        subprocess.run([ARGUMENTS.write_tiny_model, os.path.join(cls.folder.name, "tiny.ckn")], check=True)
        cls.server = ckn_e2e.Server(ARGUMENTS.ckn, cls.folder.name).__enter__()
        cls.channel = grpc.insecure_channel(cls.server.address)
        cls.stub = pb_grpc.InferenceStub(cls.channel)

    @classmethod
    def tearDownClass(cls):
        cls.channel.close()
        cls.server.__exit__(None)
        cls.folder.cleanup()

    def assert_fails(self, code, call):
        with self.assertRaises(grpc.RpcError) as caught:
            call()
        self.assertEqual(caught.exception.code(), code)
        return caught.exception.details()

    def test_classifies_as_the_projects_own_client_does(self):
        paths = []
        for seed in range(5):
            paths.append(os.path.join(self.folder.name, f"{seed}.png"))
            with open(paths[-1], "wb") as file:
                file.write(ckn_e2e.png(SIDE, SIDE, some_pixels(seed)))
        command = [ARGUMENTS.ckn_client, "--server", self.server.address, "classify", "--json", "--top-k", "3", *paths]
        expected = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)

        images = [pb.Image(encoded=open(path, "rb").read()) for path in paths]
        reply = self.stub.Classify(pb.ClassifyRequest(model="tiny", images=images, top_k=3), timeout=60)
        self.assertEqual(reply.model, "tiny")
        self.assertEqual(len(reply.results), 5)
        for got, want in zip(reply.results, expected["results"]):
            self.assertEqual(got.status.code, 0)
            self.assertEqual(
                [(entry.index, entry.label) for entry in got.classes],
                [(entry["index"], entry["label"]) for entry in want["classes"]],
            )
            self.assertEqual([entry.score for entry in got.classes], [entry["score"] for entry in want["classes"]])

    def test_pixels_and_a_png_of_them_give_the_same_reply(self):
        data = some_pixels(3)
        for method, request in ((self.stub.Classify, pb.ClassifyRequest), (self.stub.Encode, pb.EncodeRequest)):
            raw = pb.Image(pixels=pb.Pixels(height=SIDE, width=SIDE, channels=1, data=data))
            encoded = pb.Image(encoded=ckn_e2e.png(SIDE, SIDE, data))
            reply = method(request(images=[raw, encoded]), timeout=60)
            self.assertEqual(reply.results[0].status.code, 0)
            self.assertEqual(reply.results[0], reply.results[1])

    def test_encode_gives_as_many_features_as_the_model_says(self):
        models = self.stub.ListModels(pb.ListModelsRequest(), timeout=60).models
        self.assertEqual([model.name for model in models], ["tiny"])
        image = pb.Image(encoded=ckn_e2e.png(SIDE, SIDE, some_pixels(1)))
        reply = self.stub.Encode(pb.EncodeRequest(images=[image]), timeout=60)
        self.assertEqual(len(reply.results[0].values), models[0].features)

    def test_garbage_is_invalid_argument_with_a_reason(self):
        details = self.assert_fails(
            grpc.StatusCode.INVALID_ARGUMENT,
            lambda: self.stub.Classify(pb.ClassifyRequest(images=[pb.Image(encoded=b"garbage")]), timeout=60),
        )
        self.assertIn("image 0", details)

    def test_truncated_png_is_invalid_argument(self):
        whole = ckn_e2e.png(SIDE, SIDE, some_pixels(1))
        for length in range(1, len(whole) - 12, 5):  # the last 12 bytes only say that the file ends
            self.assert_fails(
                grpc.StatusCode.INVALID_ARGUMENT,
                lambda: self.stub.Classify(pb.ClassifyRequest(images=[pb.Image(encoded=whole[:length])]), timeout=60),
            )

    def test_wrong_size_is_invalid_argument(self):
        image = pb.Image(encoded=ckn_e2e.png(3, 5, bytes(15)))
        self.assert_fails(
            grpc.StatusCode.INVALID_ARGUMENT,
            lambda: self.stub.Encode(pb.EncodeRequest(images=[image]), timeout=60),
        )

    def test_unknown_model_is_not_found(self):
        image = pb.Image(encoded=ckn_e2e.png(SIDE, SIDE, some_pixels(1)))
        self.assert_fails(
            grpc.StatusCode.NOT_FOUND,
            lambda: self.stub.Classify(pb.ClassifyRequest(model="nobody", images=[image]), timeout=60),
        )

    def test_standard_health_service_says_serving(self):
        check = self.channel.unary_unary("/grpc.health.v1.Health/Check")  # bytes in, bytes out
        serving = b"\x08\x01"  # field 1: SERVING
        self.assertEqual(check(b"", timeout=60), serving)
        name = b"ckn.v1.Inference"
        self.assertEqual(check(b"\x0a" + bytes([len(name)]) + name, timeout=60), serving)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
