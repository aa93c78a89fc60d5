"""Predictions by tritonclient, in a process of its own: it patches the standard library as it loads.

Reads JSON from standard input (url, key, model, inputs), writes what came back as JSON to standard output.
"""

import json
import sys

import numpy as np
import tritonclient.http as triton
from tritonclient.utils import InferenceServerException

TYPES = {"INT64": np.int64, "FP64": np.float64, "FP32": np.float32, "INT32": np.int32, "BOOL": np.bool_, "BYTES": np.object_}


def main() -> None:
    told = json.load(sys.stdin)
    client = triton.InferenceServerClient(told["url"].removeprefix("http://"))
    headers = {"Authorization": f"Bearer {told['key']}"}
    said = {
        "live": client.is_server_live(),
        "ready": client.is_server_ready(),
        "server": client.get_server_metadata(headers=headers),
        "model": client.get_model_metadata(told["model"], headers=headers),
        "model_ready": client.is_model_ready(told["model"], headers=headers),
        "replies": [],
    }
    for asked in told["asked"]:
        inputs = []
        for name, datatype, values in asked["inputs"]:
            array = np.array(values, dtype=TYPES[datatype])
            tensor = triton.InferInput(name, list(array.shape), datatype)
            tensor.set_data_from_numpy(array, binary_data=asked["binary"])
            inputs.append(tensor)
        outputs = None if asked["binary"] else [triton.InferRequestedOutput("label", binary_data=False)]
        given = {"epsilon": asked["epsilon"]} if "epsilon" in asked else None
        named = headers | ({"Idempotency-Key": asked["header"]} if "header" in asked else {})
        try:
            result = client.infer(
                told["model"], inputs, outputs=outputs, request_id=asked.get("id", ""), headers=named, parameters=given
            )
        except InferenceServerException as error:
            said["replies"].append({"error": error.message(), "status": error.status()})
            continue
        labels = [label.decode() if isinstance(label, bytes) else label for label in result.as_numpy("label").tolist()]
        said["replies"].append({"labels": labels, "response": result.get_response()})
    json.dump(said, sys.stdout)


if __name__ == "__main__":
    main()
