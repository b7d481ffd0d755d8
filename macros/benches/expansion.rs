//! How long plans of a thousand statements take to expand.
//!
//! Macros run as cargo builds them for a program, which is without optimisation: `cargo bench -p
//! typed-nccl-macros --profile dev`. The tokens are those of the fallback, which are not the
//! compiler's: its own take somewhat longer to walk.

#![allow(dead_code, unused_imports, reason = "the modules are the macro's")]

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use proc_macro2::TokenStream;

#[path = "../src/area.rs"]
mod area;
#[path = "../src/ast/mod.rs"]
mod ast;
#[path = "../src/expand/mod.rs"]
mod expand;
#[path = "../src/fault.rs"]
mod fault;
#[path = "../src/kernel/mod.rs"]
mod kernel;
#[path = "../src/nearest.rs"]
mod nearest;
#[path = "../src/parse/mod.rs"]
mod parse;
#[path = "../src/tell.rs"]
mod tell;
#[path = "../src/valid/mod.rs"]
mod valid;

fn main() {
    report("1000 all-reduces of one buffer", &collectives(1000));
    report("500 steps of a ring, each with a compute step", &ring(500));
    report("1000 statements on 4 ranks", &listed(1000));
    report("1000 statements, each with a mistake", &mistakes(1000));
}

fn report(what: &str, plan: &str) {
    let tokens: TokenStream = format!("(crate) {plan}").parse().expect("tokens");
    let own: TokenStream = tokens.clone().into_iter().skip(1).collect();
    let mut faults = Vec::new();
    let read = median(|| parse::plan(own.clone(), &mut faults));
    let written = parse::plan(own, &mut faults).expect("a plan");
    let looked_up = median(|| valid::valid(&written, &mut faults));
    let valid = valid::valid(&written, &mut faults).plan;
    let checked = median(|| typed_nccl_plan::check::check(&valid));
    let bytes = median(|| postcard::to_stdvec(&valid));
    let all = median(|| expand::plan(tokens.clone()));
    println!(
        "{what}: {all:.1?}, of which reading {read:.1?}, looking up names {looked_up:.1?}, the checker \
         {checked:.1?}, writing data {bytes:.1?}"
    );
}

fn median<T>(mut run: impl FnMut() -> T) -> Duration {
    let mut times: Vec<Duration> = (0..7)
        .map(|_| {
            let start = spent();
            drop(run());
            spent() - start
        })
        .collect();
    times.sort();
    times[times.len() / 2]
}

/// The time that this thread has had a processor, which others' work does not lengthen; where the
/// system does not say it, the time.
fn spent() -> Duration {
    static BEGAN: LazyLock<Instant> = LazyLock::new(Instant::now);
    let began = *BEGAN;
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanos = told.and_then(|told| told.split(' ').next()?.parse().ok());
    nanos.map_or_else(|| began.elapsed(), Duration::from_nanos)
}

fn collectives(count: usize) -> String {
    let body = "all_reduce(x[..len], sum);\n".repeat(count);
    format!("all(n: Ranks, len: usize) {{ inout x: [f32; len]; {body} }}")
}

fn ring(count: usize) -> String {
    let step = "send a to (rank + 1) % n into b on net after cmp;\n\
                run work(read b, write a) on cmp after net;\n";
    let body = step.repeat(count);
    format!(
        "ring(n: Ranks, len: usize) {{ inout a: [f32; len]; out b: [f32; len]; stream net, cmp; {body} }}"
    )
}

fn listed(count: usize) -> String {
    let body = "send a to (rank + 1) % n into b;\n".repeat(count);
    format!("ring(n: Ranks in [4], len: usize) {{ in a: [f32; len]; out b: [f32; len]; {body} }}")
}

fn mistakes(count: usize) -> String {
    let body = "send a to (rank + 1) % m into bb;\n".repeat(count);
    format!("ring(n: Ranks, len: usize) {{ in a: [f32; len]; out b: [f32; len]; {body} }}")
}
