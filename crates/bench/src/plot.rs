//! Plots as SVG, drawn here so that a report needs no script and no network.
//!
//! Owns lines and bars, axes and their steps. Does not own what is plotted (`html`).

use std::fmt::Write;

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 240.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 36.0;
/// A letter's width at the size of the page's style, more or less.
const LETTER: f64 = 6.2;
/// Told apart by people who see red and green alike too.
const COLORS: [&str; 6] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"];

/// One line.
pub struct Line {
    /// In the legend.
    pub name: String,
    /// By rising x; at least two are drawn.
    pub points: Vec<(f64, f64)>,
}

/// One bar.
pub struct Bar {
    /// Before it.
    pub name: String,
    /// Its length.
    pub value: f64,
    /// Behind it: the value for people.
    pub shown: String,
}

/// What stands at the axes.
pub struct Axes<'a> {
    /// Below the x axis.
    pub x: &'a str,
    /// What the values are, for the title.
    pub y: &'a str,
    /// Texts at places of the x axis; whole steps if there are none.
    pub marks: &'a [(f64, &'a str)],
}

/// Lines over a common x axis, y from 0. Nothing if there is nothing to draw.
pub fn lines(axes: &Axes<'_>, lines: &[Line]) -> String {
    let drawn: Vec<&Line> = lines.iter().filter(|line| line.points.len() > 1).collect();
    let all = || drawn.iter().flat_map(|line| line.points.iter().copied());
    let most = |of: fn((f64, f64)) -> f64| all().map(of).fold(0.0, f64::max);
    let (x_max, y_max) = (most(|point| point.0), most(|point| point.1));
    if drawn.is_empty() || x_max <= 0.0 {
        return String::new();
    }
    let y_step = step(y_max.max(f64::MIN_POSITIVE));
    let y_top = (y_max / y_step).ceil().max(1.0) * y_step;
    let x = |value: f64| LEFT + (WIDTH - LEFT - RIGHT) * value / x_max;
    let y = |value: f64| HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / y_top;

    let mut out = format!("<figure><figcaption>{}</figcaption>", escape(axes.y));
    let _ = write!(out, "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\">");
    for n in 0..=(y_top / y_step).round() as u32 {
        let value = f64::from(n) * y_step;
        let (at, text) = (y(value), short(value));
        let _ = write!(
            out,
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{text}</text>",
            WIDTH - RIGHT,
            LEFT - 6.0,
            at + 4.0
        );
    }
    let x_step = step(x_max);
    let whole: Vec<(f64, String)> = match axes.marks {
        [] => (0..=(x_max / x_step).floor() as u32)
            .map(|n| (f64::from(n) * x_step, short(f64::from(n) * x_step)))
            .collect(),
        marks => marks.iter().map(|(at, text)| (*at, (*text).to_owned())).collect(),
    };
    for (value, text) in whole.iter().filter(|(value, _)| *value <= x_max) {
        // Half of a text at the edge would be cut off.
        let at_edge = x(*value) > WIDTH - RIGHT - LETTER * text.len() as f64 / 2.0;
        let _ = write!(
            out,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"{}\">{}</text>",
            if at_edge { WIDTH - RIGHT } else { x(*value) },
            HEIGHT - BOTTOM + 15.0,
            if at_edge { "end" } else { "middle" },
            escape(text)
        );
    }
    let _ = write!(
        out,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
        WIDTH - RIGHT,
        HEIGHT - 4.0,
        escape(axes.x)
    );
    for (line, color) in drawn.iter().zip(COLORS.iter().cycle()) {
        let points: Vec<String> =
            line.points.iter().map(|(px, py)| format!("{:.1},{:.1}", x(*px), y(*py))).collect();
        let _ = write!(
            out,
            "<polyline fill=\"none\" stroke=\"{color}\" stroke-width=\"1.5\" points=\"{}\"/>",
            points.join(" ")
        );
    }
    out.push_str("</svg><p class=\"legend\">");
    for (line, color) in drawn.iter().zip(COLORS.iter().cycle()) {
        let _ = write!(out, "<span style=\"color:{color}\">&#9644;</span> {} ", escape(&line.name));
    }
    out.push_str("</p></figure>");
    out
}

/// Bars with their values as text, in the order given. Those of 0 are left out.
pub fn bars(title: &str, values: &[Bar]) -> String {
    const ROW: f64 = 20.0;
    let values: Vec<&Bar> = values.iter().filter(|bar| bar.value > 0.0).collect();
    let longest = values.iter().map(|bar| bar.value).fold(0.0, f64::max);
    if values.is_empty() {
        return String::new();
    }
    let letters = values.iter().map(|bar| bar.name.chars().count()).max().unwrap_or(0);
    let names = (LETTER * letters as f64 + 12.0).clamp(120.0, WIDTH / 2.0);
    let height = ROW * values.len() as f64 + 8.0;
    let mut out = format!(
        "<figure><figcaption>{}</figcaption><svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\">",
        escape(title)
    );
    for (row, Bar { name, value, shown }) in values.iter().enumerate() {
        let top = ROW * row as f64 + 4.0;
        let wide = (WIDTH - names - 80.0) * value / longest;
        let _ = write!(
            out,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>\
             <rect x=\"{names}\" y=\"{top:.1}\" width=\"{wide:.1}\" height=\"14\" fill=\"{}\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            names - 6.0,
            top + 12.0,
            escape(name),
            COLORS[0],
            names + wide + 5.0,
            top + 12.0,
            escape(shown)
        );
    }
    out.push_str("</svg></figure>");
    out
}

/// Text inside of markup.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// A round step that parts `most` into two to five.
fn step(most: f64) -> f64 {
    let power = 10_f64.powf((most / 5.0).log10().floor());
    let fits = [1.0, 2.0, 5.0, 10.0].into_iter().map(|factor| factor * power);
    fits.into_iter().find(|step| most / step <= 5.0).unwrap_or(10.0 * power)
}

/// A number for an axis.
pub fn short(value: f64) -> String {
    let (scaled, unit) = match value.abs() {
        large if large >= 1e9 => (value / 1e9, "G"),
        large if large >= 1e6 => (value / 1e6, "M"),
        large if large >= 1e3 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let text = format!("{scaled:.3}");
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_round_and_few() {
        for most in [0.003, 0.9, 1.0, 7.0, 49.9, 640.0, 3.2e6] {
            let parts = most / step(most);
            assert!((1.9..=5.0).contains(&parts), "{most}: {parts}");
        }
    }

    #[test]
    fn numbers_of_axes_are_short() {
        let texts = [0.0, 0.25, 1_500.0, 2e6, 3e9].map(short);
        assert_eq!(texts, ["0", "0.25", "1.5k", "2M", "3G"]);
    }

    #[test]
    fn no_text_reaches_over_the_edge() {
        let axes = Axes { x: "share", y: "latency, s", marks: &[(1.0, "p90"), (3.98, "p99.99")] };
        let plot = lines(&axes, &[Line { name: "run 1".into(), points: vec![(0.0, 1.0), (4.0, 2.0)] }]);
        assert!(plot.contains("text-anchor=\"middle\">p90<"), "{plot}");
        assert!(plot.contains("text-anchor=\"end\">p99.99<"), "{plot}");
    }

    #[test]
    fn a_line_of_one_point_is_no_plot_and_names_are_escaped() {
        let axes = Axes { x: "s", y: "rows", marks: &[] };
        let line = |points| Line { name: "a<b".into(), points };
        assert!(lines(&axes, &[line(vec![(1.0, 1.0)])]).is_empty());
        let plot = lines(&axes, &[line(vec![(0.0, 1.0), (1.0, 2.0)])]);
        assert!(plot.contains("a&lt;b") && plot.contains("<polyline") && !plot.contains("NaN"), "{plot}");
        let bar = Bar { name: "x".into(), value: 1.0, shown: "1 s".into() };
        assert!(bars("cpu", &[]).is_empty() && bars("cpu", &[bar]).contains("<rect"));
    }
}
