//! Pictures of the library's plans, each at one small size: drawn for `docs/guide/src/pictures`
//! and, as text, for the documentation of the plan itself. They show the lines of the plan's
//! statements, so they change when these move.

use std::path::PathBuf;
use std::{fs, io};

use typed_nccl::plan::{Plan, lower};
use typed_nccl::plans;

use crate::{Check, Failure, root};

/// A plan, and the size at which it is drawn: the smallest that shows its idea.
pub(crate) struct Subject {
    pub(crate) plan: &'static Plan,
    extents: &'static [i64],
    params: &'static [&'static [i64]],
}

pub(crate) fn subjects() -> [Subject; 22] {
    let of = |plan, extents, params| Subject { plan, extents, params };
    [
        of(plans::barrier::plan(), &[4], &[]),
        of(plans::expert_exchange::plan(), &[3], &[&[1]]),
        of(plans::grad_sync::plan(), &[2], &[&[3], &[4, 4, 4]]),
        of(plans::halo_1d::plan(), &[3], &[&[8], &[1]]),
        of(plans::halo_2d::plan(), &[2, 2], &[&[16], &[4]]),
        of(plans::hierarchical_all_reduce::plan(), &[2, 2], &[&[4]]),
        of(plans::one_f1b::plan(), &[3], &[&[4], &[1]]),
        of(plans::pipeline_forward::plan(), &[3], &[&[2], &[1]]),
        of(plans::ring_exchange::plan(), &[3], &[&[1]]),
        of(plans::tree_broadcast::plan(), &[4], &[&[1]]),
        of(plans::ring_all_reduce::plan(), &[3], &[&[3]]),
        of(plans::tree_all_reduce::plan(), &[3], &[&[1]]),
        of(plans::double_tree_all_reduce::plan(), &[4], &[&[2], &[1]]),
        of(plans::doubling_all_reduce::plan(), &[4], &[&[1]]),
        of(plans::halving_all_reduce::plan(), &[4], &[&[4]]),
        of(plans::one_shot_all_reduce::plan(), &[3], &[&[1]]),
        of(plans::two_shot_all_reduce::plan(), &[3], &[&[3]]),
        of(plans::torus_all_reduce::plan(), &[2, 2], &[&[4]]),
        of(plans::bruck_all_to_all::plan(), &[3], &[&[3]]),
        of(plans::two_step_all_to_all::plan(), &[2, 2], &[&[1]]),
        of(plans::three_step_all_to_all::plan(), &[2, 2], &[&[1]]),
        of(plans::all_to_next::plan(), &[2, 2], &[&[2]]),
    ]
}

/// The files for a plan, with their contents.
fn files(subject: &Subject) -> Check<[(PathBuf, String); 2]> {
    let Subject { plan, extents, params } = subject;
    let name = &plan.name;
    let failed = |why: String| Failure::Broken(format!("plan `{name}`: {why}"));
    let params: Vec<Vec<i64>> = params.iter().map(|list| list.to_vec()).collect();
    let sizes = plan.sizes(extents, &params).map_err(|why| failed(why.to_string()))?;
    let schedule = lower(plan, &sizes).map_err(|why| failed(why.to_string()))?;
    // As in doc comments, whose lines begin with a space that rustdoc removes.
    let indented = |line: &str| if line.is_empty() { "\n".into() } else { format!(" {line}\n") };
    let text = schedule.to_text(plan).lines().map(indented).collect();
    Ok([
        (root().join(format!("docs/guide/src/pictures/{name}.svg")), schedule.to_svg(plan)),
        (root().join(format!("src/plans/timelines/{name}.txt")), text),
    ])
}

/// Draws all of them.
pub(crate) fn run() -> Check {
    for subject in subjects() {
        for (path, content) in files(&subject)? {
            let written = path.parent().map_or(Ok(()), fs::create_dir_all);
            let written = written.and_then(|()| fs::write(&path, content));
            written.map_err(|error: io::Error| {
                Failure::NotMade(format!("{} cannot be written: {error}", path.display()))
            })?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::ffi::OsString;
    use std::fs;
    use std::path::PathBuf;

    use super::{files, root, subjects};

    fn all() -> Vec<(PathBuf, String)> {
        let files = subjects().iter().map(files).collect::<Result<Vec<_>, _>>();
        files.map_err(|why| why.to_string()).expect("plans of the library").concat()
    }

    #[test]
    fn what_is_kept_is_what_would_be_drawn() {
        for (path, content) in all() {
            let kept = fs::read_to_string(&path).unwrap_or_default();
            let path = path.display();
            assert!(kept == content, "{path} is stale: cargo run -p xtask -- pictures");
        }
    }

    #[test]
    fn every_plan_of_the_library_is_drawn_and_no_other() {
        let drawn: BTreeSet<PathBuf> = all().into_iter().map(|(path, _)| path).collect();
        for folder in ["docs/guide/src/pictures", "src/plans/timelines"] {
            for entry in fs::read_dir(root().join(folder)).expect("the folder is there") {
                let path = entry.expect("an entry").path();
                assert!(drawn.contains(&path), "{} is of no plan", path.display());
            }
        }
        let library = fs::read_to_string(root().join("src/plans/mod.rs")).expect("the library");
        let uses = library.lines().filter_map(|line| line.strip_prefix("pub use "));
        for name in uses.filter_map(|path| path.trim_end_matches(';').rsplit("::").next()) {
            let file = OsString::from(format!("{name}.svg"));
            let is_drawn = drawn.iter().any(|path| path.file_name() == Some(&file));
            assert!(is_drawn, "`{name}` is not drawn");
        }
    }
}
