//! Problems as pictures: the circle is there, and who does what.

use typed_nccl_plan::verdict::Problem;

use super::sheet::Sheet;
use crate::plans;

fn problem(plan: typed_nccl_plan::build::PlanBuilder) -> Problem {
    let refused = plan.check().expect_err("a near miss");
    refused.rejected().problems[0].clone()
}

#[test]
fn every_story_can_be_read() {
    for (name, miss) in plans::near_misses() {
        let refused = miss.plan.check().expect_err("a near miss");
        for problem in &refused.rejected().problems {
            Sheet::read(&problem.to_svg()).is_readable(name);
            assert!(problem.to_mermaid().starts_with("flowchart LR\n"));
        }
    }
}

#[test]
fn a_deadlock_is_a_circle() {
    let deadlock = problem(plans::ring::sends_first().plan);
    let many = deadlock.story.len();
    assert!(many >= 4);
    let sheet = Sheet::read(&deadlock.to_svg());
    let arrows = sheet.texts.iter().filter(|(text, _)| text == "waits for" || text == "only after");
    assert_eq!(arrows.count(), many, "one arrow from each box");
    let flow = deadlock.to_mermaid();
    for from in 0..many {
        let arrow = |line: &&str| {
            let line = line.trim_start();
            line.starts_with(&format!("s{from} ==>")) || line.starts_with(&format!("s{from} -->"))
        };
        assert_eq!(flow.lines().filter(arrow).count(), 1, "{flow}");
    }
    assert!(flow.contains(&format!("| s{}\n", 0)), "nothing leads back:\n{flow}");
}

#[test]
fn a_race_has_two_sides() {
    let race = problem(plans::halo::one_copy_twice().plan);
    let sheet = Sheet::read(&race.to_svg());
    assert!(sheet.says("in no order"));
    assert!(race.to_mermaid().contains("s0 <-.->|in no order| s1"));
}

#[test]
fn a_story_of_many_ranks_is_cut_by_ranks() {
    let mut problem = problem(plans::ring::sends_first().plan);
    let line = problem.story[0].clone();
    problem.story = (0..24)
        .map(|rank| {
            let mut line = line.clone();
            (line.rank, line.other) = (Some(rank), Some((rank + 1) % 24));
            line
        })
        .collect();
    let sheet = Sheet::read(&problem.to_svg());
    sheet.is_readable("many ranks");
    assert!(sheet.says("rank 15") && !sheet.says("rank 16"));
    assert!(sheet.says("… 9 more lines of the story"));
    assert!(problem.to_mermaid().contains("… 9 more lines"));
}
