//! Reads MSCCL++'s JSON, as its DSL writes it and its executor plays it.
//!
//! What it means is what the executor makes of it. A block's threads go on without each other: a
//! signal is raised by one of them, and covers what all have done only after a `nop`. A put over a
//! port channel is done by a proxy, later. Packets carry flags, for which their readers wait.
//! Relaxed signals and packets tell that a kernel has begun, not what it has done.
//!
//! The schedule is played several times, as a program that calls it again would: what lets the next
//! run begin too early is found as well.

mod channels;
mod cut;
mod operation;
mod ranges;
mod schema;

use std::collections::HashSet;

use serde_json::value::RawValue;
use typed_nccl_plan::ir::Location;

use crate::cells::{Cells, Sizes};
use crate::limits;
use crate::lines::Lines;
use crate::program::{Barrier, Block, Collective, Format, Program, Semaphore};
use crate::refusal::Refusals;
use crate::unreadable::{Reason, Unreadable};
use channels::Channels;
use cut::Cut;
use operation::Reader;
use schema::{Gpu, Op, Plan};

pub(crate) fn read(text: &str) -> Result<Program, Unreadable> {
    let source = Source { text, lines: Lines::new(text) };
    let plan: Plan<'_> = serde_json::from_str(text).map_err(|error| syntax(&error, 0))?;
    let cut = Cut::of(&plan, &source)?;
    let mut program = empty(&plan, &cut, &source)?;
    let mut refused = Refusals::new("MSCCL++'s executor does not do what the schedule means");
    program.is_fatal = !fit(&plan, program.collective, &source, &mut refused);
    if !matches!(plan.protocol.as_str(), "Simple" | "LL") {
        let title = format!("`{}` is no protocol of MSCCL++: Simple or LL", plan.protocol);
        refused.add(Location::default(), title);
    }
    let mut channels = Channels::new(&plan.gpus).ok_or_else(|| {
        let what = Reason::NoElement("a rank that another one is connected to");
        Unreadable::new(Location::default(), what)
    })?;
    let mut packets = Packets::default();
    let mut acts = 0;
    for (rank, gpu) in (0..).zip(&plan.gpus) {
        if gpu.id != rank {
            refused.add(Location::default(), format!("rank {rank} has the `id` {}", gpu.id));
        }
        let semaphores = program.semaphores.len() as u32;
        for (id, semaphore) in (0..).zip(&gpu.semaphores) {
            let initial = semaphore.init_value;
            program.semaphores.push(Semaphore { id, initial });
        }
        let barriers = program.barriers.len() as u32;
        for id in 0..operation::BARRIERS {
            program.barriers.push(Barrier { id });
        }
        for (at, block) in (0..).zip(&gpu.threadblocks) {
            if block.id != at {
                let title = format!("block {at} of rank {rank} has the `id` {}", block.id);
                refused.add(Location::default(), title);
            }
            let mut reader = Reader {
                source: &source,
                cut: &cut,
                rank,
                gpu,
                block,
                begins: (semaphores, barriers),
                channels: &mut channels,
                program: &mut program,
                refused: &mut refused,
                packets: &mut packets,
                steps: Vec::new(),
                acts,
            };
            reader.read()?;
            acts = reader.acts;
            let steps = reader.steps;
            program.blocks.push(Block { rank, id: block.id, steps });
        }
    }
    packets.compare(&plan, &mut refused);
    let lines = 2 * program.blocks.len() + program.proxies.len() + plan.gpus.len();
    if lines > limits::LINES {
        return Err(Unreadable::too_large("thread blocks and channels", limits::LINES));
    }
    program.problems.extend(refused.problems());
    Ok(program)
}

/// The text, and where its parts are.
struct Source<'a> {
    text: &'a str,
    lines: Lines,
}

impl<'a> Source<'a> {
    fn at(&self, raw: &RawValue) -> Location {
        self.lines.at(self.offset(raw))
    }

    fn offset(&self, raw: &RawValue) -> usize {
        (raw.get().as_ptr() as usize).saturating_sub(self.text.as_ptr() as usize)
    }

    fn op(&self, raw: &'a RawValue) -> Result<Op<'a>, Unreadable> {
        let before = self.at(raw).line.saturating_sub(1);
        serde_json::from_str(raw.get()).map_err(|error| syntax(&error, before))
    }
}

fn syntax(error: &serde_json::Error, lines: u32) -> Unreadable {
    let number = |value: usize| u32::try_from(value).unwrap_or(u32::MAX);
    let line = number(error.line()).saturating_add(lines);
    let at = Location::new(line, number(error.column()));
    // Its text ends with the place, which is wrong for a part.
    let text = error.to_string();
    let text = text.rsplit_once(" at line ").map_or(text.as_str(), |(text, _)| text);
    Unreadable::new(at, Reason::Syntax(text.chars().take(300).collect()))
}

/// The program without its blocks.
fn empty(plan: &Plan<'_>, cut: &Cut, source: &Source<'_>) -> Result<Program, Unreadable> {
    let too_large = || Unreadable::too_large("chunks", limits::CELLS);
    if plan.gpus.is_empty() {
        let (value, wanted) = ("[]".to_owned(), "a list of one rank or more".to_owned());
        let reason = Reason::Value { attribute: "gpus", value, wanted };
        return Err(Unreadable::new(Location::default(), reason));
    }
    if plan.gpus.len() > limits::RANKS as usize {
        return Err(Unreadable::too_large("ranks", limits::RANKS));
    }
    let collective = Collective::named(&plan.collective).unwrap_or(Collective::Custom);
    let sizes = plan.gpus.iter().map(|gpu| Sizes {
        input: gpu.input_chunks,
        output: gpu.output_chunks,
        scratch: gpu.scratch_chunks,
        packets: gpu.scratch_chunks,
    });
    let halves = (cut.fine, plan.use_double_scratch_buffer);
    let shape = (collective, plan.inplace);
    let cells = Cells::new(shape, sizes.collect(), halves, limits::CELLS).ok_or_else(too_large)?;
    let runs = if plan.use_double_scratch_buffer { 3 } else { 2 };
    let mut assumed = vec![format!("it is called {runs} times, one after the other")];
    if let Some(turns) = cut.turns {
        assumed.push(format!("a pipeline has {turns} turns for each chunk"));
    }
    Ok(Program {
        name: plan.name.chars().take(200).collect(),
        format: Format::Mscclpp,
        collective,
        cells,
        begins: plan.gpus.iter().map(|gpu| begin(gpu, source)).collect(),
        blocks: Vec::new(),
        fifos: Vec::new(),
        signals: Vec::new(),
        semaphores: Vec::new(),
        barriers: Vec::new(),
        proxies: Vec::new(),
        threads_apart: true,
        runs,
        problems: Vec::new(),
        is_fatal: false,
        assumed,
    })
}

/// Whether all ranks' buffers have what the collective needs, and what rank 0's have.
fn fit(
    plan: &Plan<'_>,
    collective: Collective,
    source: &Source<'_>,
    refused: &mut Refusals,
) -> bool {
    if collective == Collective::Custom {
        return true;
    }
    let mut fit = true;
    let ranks = plan.gpus.len() as u64;
    let sizes = |gpu: &Gpu<'_>| (u64::from(gpu.input_chunks), u64::from(gpu.output_chunks));
    let first = plan.gpus.first().map(sizes).unwrap_or_default();
    for (rank, gpu) in plan.gpus.iter().enumerate() {
        let (input, output) = sizes(gpu);
        let fits = match collective {
            Collective::AllGather => output == input * ranks,
            Collective::ReduceScatter => input == output * ranks,
            Collective::AllToAll => input == output && input % ranks == 0,
            _ => input == output,
        };
        let than = match (fits && input > 0 && output > 0, (input, output) == first) {
            (true, true) => continue,
            (true, false) => format!("rank 0's {} and {} in ", first.0, first.1),
            (false, _) => String::new(),
        };
        let title = format!(
            "rank {rank} has {input} chunks of input and {output} of output, which does not fit \
             {than}a schedule of {ranks} ranks for {collective}"
        );
        refused.add(begin(gpu, source), title);
        fit = false;
    }
    fit
}

/// Where a rank's first operation is.
fn begin(gpu: &Gpu<'_>, source: &Source<'_>) -> Location {
    let first = gpu.threadblocks.iter().find_map(|block| block.ops.first());
    first.map(|raw| source.at(raw)).unwrap_or_default()
}

/// Which chunks of scratch hold packets, and which do not.
#[derive(Default)]
struct Packets {
    plain: HashSet<(u32, u32)>,
    packets: HashSet<(u32, u32)>,
}

impl Packets {
    /// A packet takes twice the memory of its data, from twice its offset on.
    fn compare(&self, plan: &Plan<'_>, refused: &mut Refusals) {
        if !self.packets.is_empty() && plan.protocol != "LL" {
            let title = "packets need the protocol LL, without which scratch is half as large";
            refused.add(Location::default(), title.to_owned());
        }
        let mut both: Vec<(u32, u32)> = self.packets.iter().copied().collect();
        both.retain(|&(rank, chunk)| {
            let twice = chunk.saturating_mul(2);
            [twice, twice.saturating_add(1)].iter().any(|at| self.plain.contains(&(rank, *at)))
        });
        if let Some((rank, chunk)) = both.iter().min() {
            let title = format!(
                "packet chunk {chunk} of rank {rank} lies where other data of its scratch is"
            );
            refused.add(Location::default(), title);
        }
    }
}
