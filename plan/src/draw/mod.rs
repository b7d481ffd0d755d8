//! Pictures of schedules and problems: text, Mermaid and SVG.
//!
//! A schedule is drawn as a timeline, with a lane for each rank and stream. Time is in logical
//! steps, as many as the longest chain of calls that wait for one another. A call that waits for
//! another rank lasts from the step at which its stream reaches it. The duration of a step is not
//! known here: [`cost`](crate::cost) estimates it. A [`Problem`] is drawn as its story: who waits
//! for whom, and where.
//!
//! ```
//! # use typed_nccl_plan::build::{PlanBuilder, ring};
//! # let mut plan = PlanBuilder::new("ring, sends first");
//! # plan.ranks(2..);
//! # let len = plan.param("len", 1..);
//! # let a = plan.input::<f32>("a", len);
//! # let b = plan.output::<f32>("b", len);
//! # let net = plan.stream("net");
//! plan.on(net).send(a, ring(1));
//! plan.on(net).receive(b, ring(-1));
//! let refused = plan.check().unwrap_err();
//! let picture = refused.rejected().problems[0].to_svg();
//! # assert!(picture.contains("</svg>"));
//! ```
//!
//! Pictures stay small enough to read: parts that are left out of a large one are counted in it.

mod clock;
mod flow;
mod links;
mod mermaid;
mod names;
mod story;
mod svg;
mod text;
mod timeline;
mod width;

pub(crate) use clock::{Clock, Pace, Steps};
pub(crate) use links::Links;

use crate::ir::Plan;
use crate::lower::Schedule;
use crate::verdict::Problem;
use story::Story;
use timeline::Timeline;

impl Schedule {
    /// A timeline for a terminal of 100 columns: a line for each logical step and stream, a column
    /// for each of the first 8 ranks.
    pub fn to_text(&self, plan: &Plan) -> String {
        text::draw(&Timeline::new(plan, self))
    }

    /// A Mermaid sequence diagram: a participant for each of the first 16 ranks.
    pub fn to_mermaid(&self, plan: &Plan) -> String {
        mermaid::draw(&Timeline::new(plan, self))
    }

    /// A self-contained SVG picture: lanes for the first 16 ranks, time to the right for the first
    /// 64 steps. It has a background of its own, for light and dark pages.
    pub fn to_svg(&self, plan: &Plan) -> String {
        svg::timeline(&Timeline::new(plan, self))
    }
}

impl Problem {
    /// A Mermaid flowchart: a frame for each rank, a box for each line of the story, and arrows
    /// between them. [`render`](Self::render) gives the same as text.
    pub fn to_mermaid(&self) -> String {
        flow::draw(&Story::new(self))
    }

    /// A self-contained SVG picture: a column for each rank, the story from top to bottom. Ranks
    /// that wait for one another form a cycle of red arrows.
    pub fn to_svg(&self) -> String {
        svg::story(&Story::new(self))
    }
}
