//! Output: the table, the numbers in a file, and the picture.

use std::fs;
use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};

use crate::measure::Found;
use crate::options::{Average, Options};
use crate::{Outcome, plot};

/// The table, line by line, with a bar on a terminal.
pub(crate) struct Report<'o> {
    options: &'o Options,
    ranks: usize,
    /// With NCCL's release on GPUs.
    device: String,
    bar: Option<ProgressBar>,
    pub(crate) found: Vec<Found>,
}

impl<'o> Report<'o> {
    pub(crate) fn new(options: &'o Options, ranks: usize, kind: &str) -> Self {
        let release = (kind == "cuda").then(typed_nccl::library::version).and_then(Result::ok);
        let device =
            release.map_or_else(|| kind.to_owned(), |version| format!("{kind}, NCCL {version}"));
        let bar = std::io::stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template("{bar:40} {pos}/{len} sizes, {elapsed}");
            let bar = ProgressBar::new(options.sizes().len() as u64);
            bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        });
        let report = Self { options, ranks, device, bar, found: Vec::new() };
        let average = match options.average {
            Average::Mean => "the mean",
            Average::Max => "the slowest",
            Average::Min => "the fastest",
        };
        println!("# {}", report.describe());
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
        report
    }

    /// Reports one size.
    pub(crate) fn tell(&mut self, found: Found) {
        let options = self.options;
        let (redop, root) = (redop(options), root(options));
        let (algbw, busbw) = self.bandwidths(&found);
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
        self.found.push(found);
    }

    /// Writes the files. Fails if data was wrong.
    pub(crate) fn end(self) -> Outcome {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        if let Some(path) = &self.options.json {
            fs::write(path, format!("{:#}\n", self.to_json()))?;
        }
        if let Some(path) = &self.options.plot {
            plot::draw(path, &self)?;
        }
        match self.found.iter().filter_map(|found| found.wrong).sum::<u64>() {
            0 => Ok(()),
            wrong => Err(format!("{wrong} elements are wrong").into()),
        }
    }

    /// Algorithm and bus bandwidth, in GB/s.
    pub(crate) fn bandwidths(&self, found: &Found) -> (f64, f64) {
        let algbw = found.bytes as f64 / found.time / 1e9;
        (algbw, algbw * self.options.op.bus_factor(self.ranks))
    }

    /// Describes the measurement.
    pub(crate) fn describe(&self) -> String {
        let options = self.options;
        let forms = [
            (options.in_place, ", in place"),
            (options.window, ", in windows"),
            (options.graph, ", in a graph"),
            (options.plan, ", by a plan"),
        ];
        let forms: String =
            forms.iter().filter(|(is_on, _)| *is_on).map(|(_, form)| *form).collect();
        format!("{}{forms}: {} ranks on {}", options.op.name(), self.ranks, self.device)
    }

    /// The numbers as JSON.
    fn to_json(&self) -> Value {
        let options = self.options;
        let results = self.found.iter().map(|found| {
            let (algbw, busbw) = self.bandwidths(found);
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
            "device": self.device,
            "ranks": self.ranks,
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
}

fn redop(options: &Options) -> &'static str {
    if options.op.reduces() { options.redop.name() } else { "none" }
}

fn root(options: &Options) -> i32 {
    use crate::options::Operation::{Broadcast, Gather, Reduce, Scatter};

    if matches!(options.op, Broadcast | Gather | Reduce | Scatter) { 0 } else { -1 }
}
