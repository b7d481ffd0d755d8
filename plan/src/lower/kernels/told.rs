//! Sentences that explain why operations use a kernel or NCCL.

use super::stretch::{Choice, Stretch, What, kernels};
use crate::ir::CollectiveKind;
use crate::lower::{Schedule, WhyKernel};

/// Why statements that NCCL does not fuse share a kernel, or do not.
pub(super) fn joined(apart: Option<&str>, by_nccl: &str) -> String {
    match apart {
        None => "one kernel of this library does both, which NCCL would not fuse: neither waits for anything that \
                 the other need not wait for, and they touch different memory"
            .to_owned(),
        Some(apart) => format!("{by_nccl}; nor one kernel of this library: {apart}"),
    }
}

pub(super) fn why(schedule: &Schedule, rank: u32, stretch: &Stretch) -> WhyKernel {
    let calls = &stretch.calls[0];
    let first = &schedule.ranks[rank as usize].calls[calls[0]];
    let micros = |seconds: f64| format!("{:.1} us", seconds * 1e6);
    let (these, many) = match &stretch.what {
        What::Collectives(all) => (collectives(all), kernels(all, stretch.calls.len()).len()),
        What::Messages(..) => ("these messages".to_owned(), 1),
    };
    let nccl = match (calls.len(), first.work.operations()) {
        (1, [_]) => "NCCL's kernel",
        (1, _) => "NCCL's group",
        _ => "NCCL's kernels one by one",
    };
    let by_nccl = micros(stretch.by_nccl);
    let why = match (stretch.own.map(micros), stretch.choice) {
        (Some(own), Choice::Kernel) => {
            let kernels = if many == 1 { "one kernel" } else { &format!("{many} kernels") };
            format!("{kernels} for {these}: about {own}, {nccl} {by_nccl}")
        }
        (Some(own), Choice::Nccl) => {
            format!("{nccl} for {these}: about {by_nccl}, kernels {own}")
        }
        (Some(_), Choice::Circle) => {
            format!(
                "{nccl} for {these}: a kernel waits for all ranks, and they would wait for one another in a \
                 circle"
            )
        }
        (None, _) => format!("{these} of more bytes than kernels take: {nccl}"),
    };
    WhyKernel {
        at: first.from.first().copied().unwrap_or_default(),
        chosen: stretch.choice == Choice::Kernel,
        why,
    }
}

fn collectives(all: &[super::stretch::Collective]) -> String {
    let is_to_all = |kind: &CollectiveKind<u32>| *kind == CollectiveKind::AllToAll;
    let to_all = all.iter().filter(|(_, kind, _)| is_to_all(kind)).count();
    match (all.len(), to_all) {
        (1, 0) => "an all_reduce".to_owned(),
        (1, _) => "an all_to_all".to_owned(),
        (many, 0) => format!("{many} all_reduces"),
        (many, to_all) if many == to_all => format!("{many} all_to_alls"),
        (many, _) => format!("{many} collectives"),
    }
}
