//! Output: the table, and the numbers in a file.

use std::io::IsTerminal;
use std::sync::Mutex;

use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};

use crate::measure::Found;
use crate::options::{Average, Kind, Options};

/// The table, line by line, with a bar on a terminal.
pub(crate) struct Report<'o> {
    options: &'o Options,
    bar: Option<ProgressBar>,
    found: Mutex<Vec<Found>>,
}

impl<'o> Report<'o> {
    pub(crate) fn new(options: &'o Options) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template("{bar:40} {pos}/{len} sizes, {elapsed}");
            let bar = ProgressBar::new(options.sizes().len() as u64);
            bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        });
        let average = match options.average {
            Average::Mean => "the mean",
            Average::Max => "the slowest",
            Average::Min => "the fastest",
        };
        println!("# {}", describe(options));
        println!(
            "# time of one call: {} calls and a wait, after {} others; {average} of the ranks",
            options.iters, options.warmup
        );
        println!(
            "# {:>12} {:>12} {:>6} {:>6} {:>5} {:>10} {:>8} {:>8} {:>7}",
            "size", "count", "type", "redop", "root", "time", "algbw", "busbw", "#wrong"
        );
        println!(
            "# {:>12} {:>12} {:>6} {:>6} {:>5} {:>10} {:>8} {:>8} {:>7}",
            "(B)", "(elements)", "", "", "", "(us)", "(GB/s)", "(GB/s)", ""
        );
        Self { options, bar, found: Mutex::default() }
    }

    /// Reports one size.
    pub(crate) fn tell(&self, found: Found) {
        let options = self.options;
        let (redop, root) = (redop(options), root(options));
        let (algbw, busbw) = bandwidths(options, &found);
        let wrong = found.wrong.map_or_else(|| "N/A".to_owned(), |wrong| wrong.to_string());
        let dtype = options.dtype.get().to_string();
        let line = format!(
            "  {:>12} {:>12} {dtype:>6} {redop:>6} {root:>5} {:>10.2} {algbw:>8.2} {busbw:>8.2} {wrong:>7}",
            found.bytes,
            found.count,
            found.time * 1e6,
        );
        match &self.bar {
            Some(bar) => {
                bar.suspend(|| println!("{line}"));
                bar.inc(1);
            }
            None => println!("{line}"),
        }
        self.found.lock().expect("nobody panics here").push(found);
    }

    /// Returns all results.
    pub(crate) fn end(self) -> Vec<Found> {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
        self.found.into_inner().expect("nobody panics here")
    }
}

fn redop(options: &Options) -> &'static str {
    if options.op.reduces() { options.redop.name() } else { "none" }
}

fn root(options: &Options) -> i32 {
    use crate::options::Operation::{Broadcast, Gather, Reduce, Scatter};

    if matches!(options.op, Broadcast | Gather | Reduce | Scatter) { 0 } else { -1 }
}

/// Algorithm and bus bandwidth, in GB/s.
pub(crate) fn bandwidths(options: &Options, found: &Found) -> (f64, f64) {
    let algbw = found.bytes as f64 / found.time / 1e9;
    (algbw, algbw * options.op.bus_factor(options.ranks))
}

/// Describes the measurement.
pub(crate) fn describe(options: &Options) -> String {
    let forms = [
        (options.in_place, "in place"),
        (options.window, "in windows"),
        (options.graph, "in a graph"),
        (options.plan, "by a plan"),
    ];
    let forms: Vec<_> = forms.iter().filter(|(is_on, _)| *is_on).map(|(_, form)| *form).collect();
    let forms = if forms.is_empty() { String::new() } else { format!(", {}", forms.join(", ")) };
    format!("{}{forms}: {} ranks on {}", options.op.name(), options.ranks, device(options))
}

/// The device, and NCCL's release on GPUs.
fn device(options: &Options) -> String {
    match options.device {
        Kind::Host => "host".to_owned(),
        Kind::Cuda => match typed_nccl::library::version() {
            Ok(version) => format!("cuda, NCCL {version}"),
            Err(_) => "cuda".to_owned(),
        },
    }
}

/// The numbers as JSON.
pub(crate) fn to_json(options: &Options, found: &[Found]) -> Value {
    let results = found.iter().map(|found| {
        let (algbw, busbw) = bandwidths(options, found);
        json!({
            "bytes": found.bytes,
            "count": found.count,
            "time_us": found.time * 1e6,
            "algbw_gb_s": algbw,
            "busbw_gb_s": busbw,
            "wrong": found.wrong,
        })
    });
    json!({
        "op": options.op.name(),
        "device": device(options),
        "ranks": options.ranks,
        "dtype": options.dtype.get().to_string(),
        "redop": redop(options),
        "in_place": options.in_place,
        "window": options.window,
        "graph": options.graph,
        "plan": options.plan,
        "iters": options.iters,
        "warmup": options.warmup,
        "average": format!("{:?}", options.average).to_lowercase(),
        "results": results.collect::<Vec<_>>(),
    })
}
