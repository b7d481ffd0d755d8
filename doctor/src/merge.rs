//! Several timelines as one: a file for viewers, or a page that needs none.

use std::fs;

use serde_json::Value;

/// One timeline of the events of several, in the order of their times, with its end. The clocks of
/// the machines are taken to agree.
///
/// # Errors
/// A file that cannot be read, or is no timeline.
pub fn merge(files: &[&str]) -> Result<String, String> {
    Ok(json(&merged(files)?))
}

/// A page for a browser that shows the timeline of [`merge`]. It is one file and loads nothing.
///
/// # Errors
/// As [`merge`].
pub fn page(files: &[&str]) -> Result<String, String> {
    // The events are the text of a script element, which only `<` can end. JSON has that character
    // in strings alone, where it can be written as an escape.
    let events = json(&merged(files)?).replace('<', "\\u003c");
    let (before, after) = TEMPLATE.split_once("@EVENTS@").unwrap_or((TEMPLATE, ""));
    Ok([before, &events, after].concat())
}

const TEMPLATE: &str = include_str!("page.html");

fn json(events: &[Value]) -> String {
    let lines: Vec<_> = events.iter().map(Value::to_string).collect();
    format!("[\n{}\n]", lines.join(",\n"))
}

fn merged(files: &[&str]) -> Result<Vec<Value>, String> {
    let mut all = Vec::new();
    for file in files {
        let text = fs::read_to_string(file).map_err(|error| format!("{file}: {error}"))?;
        all.extend(events(&text).map_err(|error| format!("{file} is no timeline: {error}"))?);
    }
    // Names of rows have no time and come first. The order within a row stays.
    all.sort_by(|one, other| time(one).total_cmp(&time(other)));
    Ok(all)
}

fn time(event: &Value) -> f64 {
    event["ts"].as_f64().unwrap_or(f64::NEG_INFINITY)
}

/// The events of a timeline, which has no end, and whose last line may be cut off.
fn events(text: &str) -> Result<Vec<Value>, String> {
    if let Ok(whole) = serde_json::from_str(text) {
        return Ok(whole);
    }
    let Some(lines) = text.trim_start().strip_prefix('[') else {
        return Err("it does not begin with `[`".to_owned());
    };
    let mut events = Vec::new();
    let lines: Vec<&str> = lines.lines().filter(|line| !line.trim().is_empty()).collect();
    for (at, line) in lines.iter().enumerate() {
        match serde_json::from_str(line.trim().trim_end_matches(',')) {
            Ok(event) => events.push(event),
            Err(_) if at + 1 == lines.len() => {}
            Err(error) => return Err(format!("line {}: {error}", at + 2)),
        }
    }
    Ok(events)
}

#[cfg(test)]
mod tests {
    use super::events;

    #[test]
    fn a_cut_line_is_left_out() {
        let all = events("[\n{\"ts\":1},\n{\"ts\":2},\n{\"t").expect("it is a timeline");
        assert_eq!(all.len(), 2);
        assert!(events("[\n{\"t\n{\"ts\":2},\n").is_err());
        assert!(events("no timeline").is_err());
    }
}
