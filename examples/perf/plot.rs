//! A picture: bandwidth and time over size.

use std::ops::Range;
use std::path::Path;

use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::*;

use crate::Outcome;
use crate::measure::Found;
use crate::report::Report;

/// Draws both, one above the other.
pub(crate) fn draw(path: &Path, report: &Report<'_>) -> Outcome {
    let area = SVGBackend::new(path, (900, 900)).into_drawing_area();
    area.fill(&WHITE)?;
    let area = area.titled(&report.describe(), ("sans-serif", 22))?;
    let (above, below) = area.split_vertically(420);
    let of = |value: &dyn Fn(&Found) -> f64| -> Vec<(f64, f64)> {
        report.found.iter().map(|found| (found.bytes as f64, value(found))).collect()
    };
    let busbw = of(&|found| report.bandwidths(found).1);
    chart(&above, "bus bandwidth (GB/s)", &busbw, 0.0..most(&busbw) * 1.1)?;
    let times = of(&|found| found.time * 1e6);
    let least = times.iter().map(|point| point.1).fold(f64::INFINITY, f64::min);
    chart(&below, "time of a call (us)", &times, (least / 2.0..most(&times) * 2.0).log_scale())?;
    area.present()?;
    Ok(())
}

fn most(points: &[(f64, f64)]) -> f64 {
    points.iter().map(|point| point.1).fold(f64::MIN_POSITIVE, f64::max)
}

fn chart<Y>(
    area: &DrawingArea<SVGBackend<'_>, plotters::coord::Shift>,
    what: &str,
    points: &[(f64, f64)],
    heights: Y,
) -> Outcome
where
    Y: AsRangedCoord<Value = f64>,
    Y::CoordDescType: ValueFormatter<f64>,
{
    let first = points.first().map_or(1.0, |point| point.0);
    let last = points.last().map_or(2.0, |point| point.0);
    let sizes: Range<f64> = first / 1.5..last * 1.5;
    let mut chart = ChartBuilder::on(area)
        .margin(15)
        .x_label_area_size(40)
        .y_label_area_size(70)
        .build_cartesian_2d(sizes.log_scale().base(2.0), heights)?;
    chart
        .configure_mesh()
        .x_desc("bytes")
        .y_desc(what)
        .x_label_formatter(&|bytes| size(*bytes))
        .draw()?;
    chart.draw_series(LineSeries::new(points.iter().copied(), &BLUE))?;
    chart.draw_series(points.iter().map(|&point| Circle::new(point, 3, BLUE.filled())))?;
    Ok(())
}

/// `4K`, `1M`.
fn size(bytes: f64) -> String {
    let units = [(30, "G"), (20, "M"), (10, "K")];
    let unit = units.iter().find(|(shift, _)| bytes >= f64::from(1 << shift));
    unit.map_or_else(
        || format!("{bytes:.0}"),
        |(shift, unit)| format!("{:.0}{unit}", bytes / f64::from(1 << shift)),
    )
}
