//! The fields of MSCCL++'s JSON that say what is done.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::cells::Buffer;

#[derive(Deserialize)]
pub(super) struct Plan<'a> {
    pub(super) name: String,
    pub(super) collective: String,
    pub(super) protocol: String,
    pub(super) inplace: bool,
    #[serde(default)]
    pub(super) use_double_scratch_buffer: bool,
    #[serde(borrow)]
    pub(super) gpus: Vec<Gpu<'a>>,
}

#[derive(Deserialize)]
pub(super) struct Gpu<'a> {
    pub(super) id: u32,
    pub(super) input_chunks: u32,
    pub(super) output_chunks: u32,
    pub(super) scratch_chunks: u32,
    #[serde(borrow)]
    pub(super) threadblocks: Vec<Threadblock<'a>>,
    #[serde(default)]
    pub(super) channels: Vec<Channel>,
    #[serde(default)]
    pub(super) remote_buffers: Vec<RemoteBuffer>,
    #[serde(default)]
    pub(super) semaphores: Vec<Semaphore>,
}

#[derive(Deserialize)]
pub(super) struct Channel {
    pub(super) channel_type: ChannelType,
    #[serde(default)]
    pub(super) connected_to: Vec<u32>,
    pub(super) buffer_type: Option<BufferType>,
    #[serde(default)]
    pub(super) rank_groups: Vec<RankGroup>,
}

#[derive(Deserialize)]
pub(super) struct RankGroup {
    pub(super) ranks: Vec<u32>,
}

#[derive(Deserialize)]
pub(super) struct RemoteBuffer {
    pub(super) rank: u32,
    #[serde(rename = "type")]
    pub(super) buffer: BufferType,
}

#[derive(Deserialize)]
pub(super) struct Semaphore {
    pub(super) init_value: i64,
}

#[derive(Deserialize)]
pub(super) struct Threadblock<'a> {
    pub(super) id: u32,
    #[serde(borrow)]
    pub(super) ops: Vec<&'a RawValue>,
    #[serde(default)]
    pub(super) channels: Vec<BlockChannels>,
    #[serde(default)]
    pub(super) remote_buffer_refs: Vec<BlockBuffers>,
}

#[derive(Deserialize)]
pub(super) struct BlockChannels {
    pub(super) channel_type: ChannelType,
    pub(super) channel_ids: Vec<u32>,
}

#[derive(Deserialize)]
pub(super) struct BlockBuffers {
    pub(super) access_channel_type: ChannelType,
    pub(super) remote_buffer_ids: Vec<u32>,
}

#[derive(Deserialize)]
pub(super) struct Op<'a> {
    pub(super) name: String,
    #[serde(default)]
    pub(super) src_buff: Vec<Range>,
    #[serde(default)]
    pub(super) dst_buff: Vec<Range>,
    pub(super) channel_type: Option<ChannelType>,
    #[serde(default)]
    pub(super) channel_ids: Vec<u32>,
    #[serde(default)]
    pub(super) semaphore_ids: Vec<u32>,
    #[serde(default)]
    pub(super) barrier_id: u32,
    #[serde(default)]
    pub(super) num_threadblocks: u32,
    pub(super) tbg_info: Option<Group>,
    pub(super) iter_context: Option<Turns>,
    #[serde(borrow, default)]
    pub(super) ops: Vec<&'a RawValue>,
}

/// Chunks of a buffer of the rank, of another one, or of all of a switch channel.
#[derive(Clone, Copy, Deserialize)]
pub(super) struct Range {
    #[serde(rename = "type")]
    pub(super) buffer: Option<BufferType>,
    pub(super) buffer_id: Option<u32>,
    pub(super) switch_channel_id: Option<u32>,
    pub(super) index: u32,
    pub(super) size: u32,
}

/// The blocks that share an operation, and which one this is.
#[derive(Clone, Copy, Deserialize)]
pub(super) struct Group {
    pub(super) tb_id: u32,
    pub(super) tbg_size: u32,
}

#[derive(Clone, Copy, Deserialize)]
pub(super) struct Turns {
    pub(super) num_chunks: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ChannelType {
    Memory,
    Port,
    Switch,
    None,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(super) enum BufferType {
    #[serde(rename = "i")]
    Input,
    #[serde(rename = "o")]
    Output,
    #[serde(rename = "s")]
    Scratch,
}

impl BufferType {
    pub(super) fn buffer(self) -> Buffer {
        match self {
            Self::Input => Buffer::Input,
            Self::Output => Buffer::Output,
            Self::Scratch => Buffer::Scratch,
        }
    }
}

impl ChannelType {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Port => "port",
            Self::Switch => "switch",
            Self::None => "no",
        }
    }
}
