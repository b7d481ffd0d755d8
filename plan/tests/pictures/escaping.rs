//! Names that mean something to XML, to Mermaid or to a terminal.

use super::sheet::Sheet;
use crate::plans;
use crate::schedules::ring_exchange;

const NAME: &str = "a<b>&\"c\" 'd'; #e `f` %%{g}\n\u{1b}[31m\u{202e}終";

#[test]
fn names_of_plans_and_buffers_stay_text() {
    let mut sketch = ring_exchange(2, 4);
    sketch.schedule.plan = NAME.to_owned();
    sketch.plan.buffers[0].name = NAME.to_owned();
    sketch.plan.streams[0].name = NAME.to_owned();
    let svg = sketch.schedule.to_svg(&sketch.plan);
    let sheet = Sheet::read(&svg);
    assert!(sheet.titles[0].starts_with("a<b>&\"c\" 'd'; #e `f` %%{g}"), "{:?}", sheet.titles[0]);
    let mermaid = sketch.schedule.to_mermaid(&sketch.plan);
    assert!(mermaid.contains("a#60;b>#38;#34;c#34; 'd'#59; #35;e #96;f#96; #37;#37;#123;g#125;"));
    for picture in [svg, mermaid, sketch.schedule.to_text(&sketch.plan)] {
        assert!(!picture.contains(['\u{1b}', '\u{202e}']), "{picture}");
    }
}

#[test]
fn stories_stay_text() {
    let refused = plans::ring::sends_first().plan.check().expect_err("a near miss");
    let mut problem = refused.rejected().problems[0].clone();
    problem.title = NAME.repeat(9);
    problem.story[0].text = NAME.repeat(3);
    problem.help = vec!["x".repeat(1000), NAME.to_owned(), String::new()];
    Sheet::read(&problem.to_svg()).is_readable("names");
    let flow = problem.to_mermaid();
    assert!(!flow.contains("<b>") && !flow.contains('\u{1b}'));
}
