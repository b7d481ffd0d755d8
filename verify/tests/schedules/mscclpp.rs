//! Small schedules in MSCCL++'s JSON.

use serde_json::{Value, json};

pub(crate) fn range(buffer: &str, index: usize) -> Value {
    json!({ "type": buffer, "index": index, "size": 1 })
}

pub(crate) fn remote(buffer: usize, index: usize) -> Value {
    json!({ "buffer_id": buffer, "index": index, "size": 1 })
}

pub(crate) fn nop() -> Value {
    json!({ "name": "nop" })
}

/// An operation over channels of memory, or of another type.
pub(crate) fn over(name: &str, kind: &str, channels: &[usize]) -> Value {
    json!({ "name": name, "channel_type": kind, "channel_ids": channels })
}

pub(crate) fn moved(name: &str, from: Vec<Value>, to: Vec<Value>) -> Value {
    json!({ "name": name, "src_buff": from, "dst_buff": to, "channel_type": "memory" })
}

/// A block that has a channel to each other rank, and the first buffer of each.
pub(crate) fn block(id: usize, peers: usize, kind: &str, ops: Vec<Value>) -> Value {
    let all: Vec<usize> = (0..peers).collect();
    json!({
        "id": id,
        "ops": ops,
        "channels": [{ "channel_type": kind, "channel_ids": all }],
        "remote_buffer_refs": [{ "access_channel_type": kind, "remote_buffer_ids": all }],
    })
}

/// A rank that is connected to all others and uses one of their buffers.
pub(crate) fn gpu(rank: usize, ranks: usize, sizes: [usize; 3], buffer: &str, kind: &str) -> Value {
    let peers: Vec<usize> = (0..ranks).filter(|peer| *peer != rank).collect();
    let buffers: Vec<Value> = peers
        .iter()
        .map(|peer| json!({ "rank": peer, "type": buffer, "access_channel_types": [kind] }))
        .collect();
    json!({
        "id": rank,
        "input_chunks": sizes[0],
        "output_chunks": sizes[1],
        "scratch_chunks": sizes[2],
        "threadblocks": [],
        "channels": [{ "channel_type": kind, "connected_to": peers }],
        "remote_buffers": buffers,
        "semaphores": [],
    })
}

pub(crate) fn plan(collective: &str, protocol: &str, gpus: Vec<Value>) -> Value {
    json!({
        "name": "test",
        "collective": collective,
        "protocol": protocol,
        "inplace": false,
        "reuse_resources": false,
        "gpus": gpus,
        "num_threads_per_block": 1024,
        "use_double_scratch_buffer": protocol == "LL",
        "buffer_alignment": 16,
        "min_message_size": 0,
        "max_message_size": 1 << 30,
    })
}

/// The operations of a rank's block.
pub(crate) fn ops(plan: &mut Value, rank: usize, block: usize) -> &mut Vec<Value> {
    let ops = &mut plan["gpus"][rank]["threadblocks"][block]["ops"];
    ops.as_array_mut().expect("it has operations")
}

/// An all-gather: every rank waits until all have begun, puts, and waits until all have put.
pub(crate) fn all_gather(ranks: usize) -> Value {
    let rank = |rank: usize| {
        let peers: Vec<usize> = (0..ranks - 1).collect();
        let mut ops = vec![
            over("rlxsignal", "memory", &peers),
            over("rlxwait", "memory", &peers),
            nop(),
            moved("copy", vec![range("i", 0)], vec![range("o", rank)]),
        ];
        for &peer in &peers {
            ops.push(moved("put", vec![range("i", 0)], vec![remote(peer, rank)]));
        }
        ops.extend([nop(), over("signal", "memory", &peers)]);
        ops.extend([over("wait", "memory", &peers), nop()]);
        let mut gpu = gpu(rank, ranks, [1, ranks, 0], "o", "memory");
        gpu["threadblocks"] = json!([block(0, ranks - 1, "memory", ops)]);
        gpu
    };
    plan("allgather", "Simple", (0..ranks).map(rank).collect())
}

/// An all-reduce of one chunk by packets, which need no signals.
pub(crate) fn packets(ranks: usize) -> Value {
    let rank = |rank: usize| {
        let mut ops = Vec::new();
        for peer in 0..ranks - 1 {
            ops.push(moved("ppkt", vec![range("i", 0)], vec![remote(peer, rank)]));
        }
        let mut from = vec![range("i", 0)];
        from.extend((0..ranks).filter(|peer| *peer != rank).map(|peer| range("s", peer)));
        ops.push(moved("repkt", from, vec![range("o", 0)]));
        let mut gpu = gpu(rank, ranks, [1, 1, ranks], "s", "memory");
        gpu["threadblocks"] = json!([block(0, ranks - 1, "memory", ops)]);
        gpu
    };
    plan("allreduce", "LL", (0..ranks).map(rank).collect())
}

/// Two ranks exchange over port channels.
pub(crate) fn ports() -> Value {
    let rank = |rank: usize| {
        let mut put = over("pwsf", "port", &[0]);
        put["src_buff"] = json!([range("i", 0)]);
        put["dst_buff"] = json!([remote(0, 0)]);
        let ops = vec![
            over("signal", "port", &[0]),
            over("wait", "port", &[0]),
            nop(),
            put,
            over("wait", "port", &[0]),
            nop(),
        ];
        let mut gpu = gpu(rank, 2, [1, 1, 0], "o", "port");
        gpu["threadblocks"] = json!([block(0, 1, "port", ops)]);
        gpu
    };
    plan("sendrecv", "Simple", vec![rank(0), rank(1)])
}
