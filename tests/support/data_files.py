"""Small files of demonstrations in the layouts that other tools write, made with the libraries that they use."""

import json
from pathlib import Path

import numpy as np

LENGTHS = (4, 7, 5)
MOTORS = ["shoulder.pos", "gripper.pos"]


def random_episodes(state_dim=3, action_dim=2, lengths=LENGTHS, seed=0):
    """Pairs of float32 states and actions."""
    rng = np.random.default_rng(seed)
    return [tuple(rng.normal(size=(T, d)).astype(np.float32) for d in (state_dim, action_dim)) for T in lengths]


def write_robomimic(path, episodes, images=False):
    """data/demo_i with obs, actions, rewards, dones and states, a mask, and attributes, as robomimic has them."""
    import h5py

    with h5py.File(path, "w") as file:
        group = file.create_group("data")
        group.attrs["total"] = sum(len(actions) for _, actions in episodes)
        group.attrs["env_args"] = json.dumps({"env_name": "Lift", "env_type": 1, "env_kwargs": {}})
        for i, (states, actions) in enumerate(episodes):
            demo = group.create_group(f"demo_{i}")
            demo.attrs["num_samples"] = len(actions)
            demo["actions"] = actions.astype(np.float64)
            demo["states"] = np.zeros((len(actions), 9))
            demo["rewards"], demo["dones"] = np.zeros(len(actions)), np.zeros(len(actions), dtype=np.int64)
            demo["obs/object"] = states[:, 1:].astype(np.float64)
            demo["obs/robot0_gripper_qpos"] = states[:, :1].astype(np.float64)
            if images:
                demo["obs/agentview_image"] = np.zeros((len(actions), 4, 4, 3), dtype=np.uint8)
        names = [f"demo_{i}".encode() for i in range(len(episodes))]
        file["mask/train"], file["mask/valid"] = np.array(names[1:]), np.array(names[:1])


def _info(version, lengths, data_path, names):
    def feature(dtype, shape, names=None):
        return {"dtype": dtype, "shape": shape, "names": names}

    numbers = {name: feature("int64", [1]) for name in ("frame_index", "episode_index", "index", "task_index")}
    return {
        "codebase_version": version,
        "robot_type": "so100",
        "total_episodes": len(lengths),
        "total_frames": sum(lengths),
        "total_tasks": 1,
        "chunks_size": 1000,
        "fps": 30,
        "splits": {"train": f"0:{len(lengths)}"},
        "data_path": data_path,
        "features": {
            "observation.state": feature("float32", [3], None),
            "action": feature("float32", [2], names),
            "observation.images.top": feature("video", [48, 64, 3], ["height", "width", "channels"]),
            "timestamp": feature("float32", [1]),
            **numbers,
        },
    }


def _frames(number, states, actions, first):
    """The columns of an episode; lists of a fixed size, and the schema that Hugging Face datasets adds."""
    import pyarrow as pa

    T = len(actions)
    columns = {
        "observation.state": pa.FixedSizeListArray.from_arrays(pa.array(states.ravel()), states.shape[1]),
        "action": pa.array(list(actions), pa.list_(pa.float32())),
        "timestamp": pa.array(np.arange(T, dtype=np.float32) / 30),
        "frame_index": pa.array(np.arange(T)),
        "episode_index": pa.array(np.full(T, number)),
        "index": pa.array(np.arange(first, first + T)),
        "task_index": pa.array(np.zeros(T, dtype=np.int64)),
    }
    described = {"info": {"features": {"task_index": {"dtype": "int64", "_type": "Value"}}}}
    return pa.table(columns).replace_schema_metadata({b"huggingface": json.dumps(described).encode()})


def write_lerobot(root, episodes, version="v3.0"):
    """A LeRobot data set with one video file. Version 3 has two files of frames, the second with two episodes."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    root, lengths = Path(root), [len(actions) for _, actions in episodes]
    starts = np.cumsum([0, *lengths[:-1]]).tolist()
    tables = [_frames(i, *pair, start) for i, (pair, start) in enumerate(zip(episodes, starts))]
    (root / "meta").mkdir(parents=True)
    (root / "data" / "chunk-000").mkdir(parents=True)
    video = root / "videos" / "observation.images.top" / "chunk-000" / "file-000.mp4"
    video.parent.mkdir(parents=True)
    video.write_bytes(b"not read")
    if version.startswith("v2"):
        path, names = "data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet", {"motors": MOTORS}
        for i, table in enumerate(tables):
            pq.write_table(table, root / "data" / "chunk-000" / f"episode_{i:06d}.parquet")
        rows = [{"episode_index": i, "tasks": ["pick"], "length": T} for i, T in enumerate(lengths)]
        (root / "meta" / "episodes.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        (root / "meta" / "tasks.jsonl").write_text(json.dumps({"task_index": 0, "task": "pick"}) + "\n")
    else:
        path, names = "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet", MOTORS
        pq.write_table(tables[0], root / "data" / "chunk-000" / "file-000.parquet")
        pq.write_table(pa.concat_tables(tables[1:]), root / "data" / "chunk-000" / "file-001.parquet")
        (root / "meta" / "episodes" / "chunk-000").mkdir(parents=True)
        number = list(range(len(lengths)))
        rows = {"episode_index": number, "length": lengths, "tasks": [["pick"]] * len(lengths)}
        pq.write_table(pa.table(rows), root / "meta" / "episodes" / "chunk-000" / "file-000.parquet")
    (root / "meta" / "info.json").write_text(json.dumps(_info(version, lengths, path, names)))
    (root / "meta" / "stats.json").write_text("{}")


def step_columns(episodes, discrete=False):
    """Columns of a data frame with a row for each step: names and values."""
    states = np.concatenate([states for states, _ in episodes])
    actions = np.concatenate([actions for _, actions in episodes])
    columns = {"episode": np.repeat([f"run {i}" for i in range(len(episodes))], [len(a) for _, a in episodes])}
    columns["step"] = np.concatenate([np.arange(len(a)) for _, a in episodes])
    columns |= {name: states[:, i] for i, name in enumerate("xyz")}
    if discrete:
        return columns | {"action": np.where(actions[:, 0] > 0, "right", "left"), "reward": actions[:, 1]}
    return columns | {"action_arm": actions[:, 0], "action_hand": actions[:, 1]}
