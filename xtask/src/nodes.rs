//! Simulated ranks on a network in memory, to which a seed does harm.

use std::time::Instant;

use crate::{Check, Failure};

pub(crate) fn run(seed: &str, count: &str) -> Check {
    let number = |text: &str| {
        text.parse::<u64>().map_err(|_| Failure::NotMade(format!("`{text}`: a number")))
    };
    let (seed, count) = (number(seed)?, number(count)?);
    let started = Instant::now();
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    let broken = |error: typed_nccl::Error| Failure::Broken(error.to_string());
    let lived = typed_nccl::__private::nodes(seed, count).map_err(broken)?;
    for fault in &lived.faults {
        println!("{fault}");
    }
    println!(
        "{count} ranks: {} completed everything, {} were told of a loss, {} that they are lost; {:.2?} of \
         their time in {:.2?}: {} events, {} MB",
        lived.completed,
        lived.told,
        lived.excluded,
        lived.time,
        started.elapsed(),
        lived.events,
        lived.bytes >> 20
    );
    Ok(())
}
