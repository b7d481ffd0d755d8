//! Reads MSCCL's XML: `<algo>`, in it a `<gpu>` for each rank, `<tb>` and `<step>`.
//!
//! What it means is what MSCCL's runtime makes of it, not what msccl-tools meant. Of its
//! connections this is assumed: a step of `cnt` chunks is `cnt` messages, as it is with the largest
//! chunks, and a message has one of `NCCL_STEPS` slots with LL and LL128, and with Simple half of
//! them. A network adds slots, on which nothing may rely.

mod attributes;
mod build;
mod transfers;

use std::collections::BTreeMap;

use roxmltree::{Document, ParsingOptions};
use typed_nccl_plan::ir::Location;

use crate::cells::{Cells, Sizes};
use crate::limits;
use crate::lines::Lines;
use crate::program::{Collective, Format, Program};
use crate::refusal::Refusals;
use crate::unreadable::{Reason, Unreadable};
use attributes::Element;
use transfers::Transfers;

/// Thread blocks of a rank.
const BLOCKS: u32 = 216;

/// Channels: NCCL's `MAXCHANNELS`.
const CHANNELS: u32 = 32;

/// A rank's element.
struct Gpu {
    at: Location,
    sizes: Sizes,
    blocks: BTreeMap<u32, Tb>,
}

/// A thread block's element.
struct Tb {
    at: Location,
    send: Option<u32>,
    receive: Option<u32>,
    channel: u32,
    transfers: Transfers,
}

pub(crate) fn read(text: &str) -> Result<Program, Unreadable> {
    let lines = Lines::new(text);
    let options = ParsingOptions { nodes_limit: limits::NODES, ..ParsingOptions::default() };
    let document = Document::parse_with_options(text, options).map_err(|error| {
        let at = error.pos();
        Unreadable::new(Location::new(at.row, at.col), Reason::Syntax(error.to_string()))
    })?;
    let root = document.root_element();
    if !root.has_tag_name("algo") {
        return Err(Unreadable::new(lines.at(root.range().start), Reason::NoElement("<algo>")));
    }
    Algo::read(Element::new(root, "algo", &lines))?.program()
}

/// The root.
struct Algo {
    at: Location,
    name: String,
    collective: Collective,
    in_place: bool,
    /// Chunks of the larger one of input and output.
    chunks: u32,
    /// Messages that a connection has room for.
    slots: u32,
    gpus: Vec<Gpu>,
    refused: Refusals,
}

impl Algo {
    fn read(algo: Element<'_, '_>) -> Result<Self, Unreadable> {
        let ranks = algo.number("ngpus", 1..=i64::from(limits::RANKS))? as u32;
        let chunks = algo.index("nchunksperloop", limits::CELLS)?;
        let mut refused = Refusals::new("MSCCL does not load it");
        let slots = match algo.text("proto")? {
            "Simple" => 2,
            "LL" | "LL128" => 8,
            other => return Err(algo.wrong("proto", other, "Simple, LL or LL128")),
        };
        let name = algo.text("coll")?;
        // The runtime's own spelling is the one with the underscore.
        let collective = Collective::named(name).unwrap_or_else(|| {
            refused.add(algo.at(), format!("`{name}` is no collective that MSCCL knows"));
            Collective::Custom
        });
        let shared = matches!(collective, Collective::AllGather | Collective::ReduceScatter);
        if shared && !chunks.is_multiple_of(ranks) {
            let wanted = format!("a multiple of the number of ranks, {ranks}");
            return Err(algo.wrong("nchunksperloop", &chunks.to_string(), wanted));
        }
        if collective == Collective::AllToAll && !chunks.is_multiple_of(ranks) {
            let wanted = format!("a multiple of the number of ranks, {ranks}");
            return Err(algo.wrong("nchunksperloop", &chunks.to_string(), wanted));
        }
        let channels = algo.index("nchannels", i32::MAX as u32)?;
        if channels > CHANNELS {
            let title = format!("it has {channels} channels, and NCCL has {CHANNELS}");
            refused.add(algo.at(), title);
        }
        let mut gpus: BTreeMap<u32, Gpu> = BTreeMap::new();
        for gpu in algo.children("gpu") {
            let id = gpu.index("id", ranks - 1)?;
            let read = Gpu::read(gpu, id, ranks, &mut refused)?;
            read.compare_sizes(collective, (chunks, ranks), &mut refused);
            if gpus.insert(id, read).is_some() {
                let reason = Reason::Twice { what: "`<gpu>`s", number: i64::from(id) };
                return Err(Unreadable::new(gpu.at(), reason));
            }
        }
        if gpus.len() != ranks as usize {
            return Err(Unreadable::new(algo.at(), Reason::NoElement("a rank's <gpu>")));
        }
        Ok(Self {
            at: algo.at(),
            name: algo.text("name")?.chars().take(200).collect(),
            collective,
            in_place: algo.number("inplace", i64::MIN..=i64::MAX)? != 0,
            chunks,
            slots,
            gpus: gpus.into_values().collect(),
            refused,
        })
    }

    /// The schedule, as the runtime plays it.
    fn program(self) -> Result<Program, Unreadable> {
        let ranks = self.gpus.len() as u32;
        let (input, output) = expected(self.collective, self.chunks, ranks);
        let sizes = self.gpus.iter().map(|gpu| match self.collective {
            Collective::Custom => gpu.sizes,
            _ => Sizes { input, output, ..gpu.sizes },
        });
        let shape = (self.collective, self.in_place);
        let cells = Cells::new(shape, sizes.collect(), (1, false), limits::CELLS)
            .ok_or_else(|| Unreadable::too_large("chunks", limits::CELLS))?;
        let mut assumed = Vec::new();
        if matches!(self.collective, Collective::Broadcast | Collective::Reduce) {
            assumed.push("the root is rank 0".to_owned());
        }
        assumed.push(format!(
            "a connection has room for {} messages of one chunk, as NCCL's has without a network",
            self.slots
        ));
        let program = Program {
            name: self.name,
            format: Format::Msccl,
            collective: self.collective,
            cells,
            begins: self.gpus.iter().map(|gpu| gpu.at).collect(),
            blocks: Vec::new(),
            fifos: Vec::new(),
            signals: Vec::new(),
            semaphores: Vec::new(),
            barriers: Vec::new(),
            proxies: Vec::new(),
            threads_apart: false,
            runs: 1,
            problems: self.refused.problems(),
            is_fatal: false,
            assumed,
        };
        build::build(program, self.slots, &self.gpus, self.at)
    }
}

impl Gpu {
    fn read(
        gpu: Element<'_, '_>,
        id: u32,
        ranks: u32,
        refused: &mut Refusals,
    ) -> Result<Self, Unreadable> {
        let sizes = Sizes {
            input: gpu.index("i_chunks", limits::CELLS)?,
            output: gpu.index("o_chunks", limits::CELLS)?,
            scratch: gpu.index("s_chunks", limits::CELLS)?,
            packets: 0,
        };
        let mut blocks = BTreeMap::new();
        for tb in gpu.children("tb") {
            let number = tb.index("id", u32::from(u16::MAX))?;
            let read = Tb::read(tb, id, ranks)?;
            for (at, title) in &read.transfers.refused {
                refused.add(*at, title.clone());
            }
            if blocks.insert(number, read).is_some() {
                let reason = Reason::Twice { what: "`<tb>`s", number: i64::from(number) };
                return Err(Unreadable::new(tb.at(), reason));
            }
        }
        let read = Self { at: gpu.at(), sizes, blocks };
        read.compare_blocks(id, refused);
        Ok(read)
    }

    fn compare_blocks(&self, id: u32, refused: &mut Refusals) {
        let count = self.blocks.len() as u32;
        if count > BLOCKS {
            let title = format!("rank {id} has {count} blocks, and MSCCL takes {BLOCKS}");
            refused.add(self.at, title);
        }
        let gap = (0..count).find(|number| !self.blocks.contains_key(number));
        if let Some(gap) = gap {
            refused.add(self.at, format!("rank {id} has no block {gap}, but a later one"));
        }
    }

    /// The runtime compares what a rank's buffers have with what the collective needs.
    fn compare_sizes(
        &self,
        collective: Collective,
        (chunks, ranks): (u32, u32),
        refused: &mut Refusals,
    ) {
        let mut compare = |name: &str, found: u32, factor: u32| {
            if found > 0 && u64::from(found) * u64::from(factor) != u64::from(chunks) {
                let title = format!(
                    "`{name}` is {found}, which does not fit `nchunksperloop`, {chunks}, in a \
                     schedule for {collective}"
                );
                refused.add(self.at, title);
            }
        };
        let factor = |shared: Collective| if collective == shared { ranks } else { 1 };
        compare("i_chunks", self.sizes.input, factor(Collective::AllGather));
        compare("o_chunks", self.sizes.output, factor(Collective::ReduceScatter));
    }
}

impl Tb {
    fn read(tb: Element<'_, '_>, id: u32, ranks: u32) -> Result<Self, Unreadable> {
        let peer = |attribute: &'static str| {
            let peer = tb.number(attribute, -1..=i64::from(ranks) - 1)?;
            if peer == i64::from(id) {
                let wanted = "another rank than its own, or -1";
                return Err(tb.wrong(attribute, &peer.to_string(), wanted));
            }
            Ok(u32::try_from(peer).ok())
        };
        Ok(Self {
            at: tb.at(),
            send: peer("send")?,
            receive: peer("recv")?,
            channel: tb.index("chan", CHANNELS)?,
            transfers: Transfers::read(tb)?,
        })
    }
}

/// The chunks of a rank's input and output.
fn expected(collective: Collective, chunks: u32, ranks: u32) -> (u32, u32) {
    match collective {
        Collective::AllGather => (chunks / ranks, chunks),
        Collective::ReduceScatter => (chunks, chunks / ranks),
        _ => (chunks, chunks),
    }
}
