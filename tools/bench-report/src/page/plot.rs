//! The two kinds of plots: ratios on a logarithmic scale, one row each, and lines or points over an
//! axis.

use crate::error::PageError;
use crate::table::number;
use plotters::coord::ranged1d::{Ranged, ValueFormatter};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// Replaced by the style sheet: text and axes; grid; series.
const INK: RGBColor = RGBColor(1, 1, 1);
const GRID: RGBColor = RGBColor(2, 2, 2);
/// Series that have a colour of their own.
pub const COLOURS: usize = 6;
/// Widths that plots are drawn for, pixels: of a wide and of a narrow window.
const WIDTHS: [(&str, u32); 2] = [("wide", 900), ("narrow", 340)];
/// Height of a row of ratios, and of what is below all rows.
const ROW: u32 = 38;
const FOOT: u32 = 40;
/// Height of other plots.
const HEIGHT: u32 = 280;

fn colour(series: usize) -> RGBColor {
    RGBColor(10, 0, (series % COLOURS) as u8)
}

/// A row of ratios: (series, ratio).
pub struct Row {
    /// What was done.
    pub label: String,
    /// At most one for each series.
    pub points: Vec<(usize, f64)>,
}

/// One line or set of points.
pub struct Series {
    /// Number of its colour.
    pub colour: usize,
    /// Joined by a line; else points alone.
    pub line: bool,
    /// The points.
    pub points: Vec<(f64, f64)>,
}

fn draw<E: std::fmt::Display>(what: E) -> PageError {
    PageError::Plot(what.to_string())
}

/// Both widths of a plot, each in an element that the style sheet shows or hides.
fn both(
    label: &str,
    height: u32,
    paint: impl Fn(&DrawingArea<SVGBackend<'_>, plotters::coord::Shift>, u32) -> Result<(), PageError>,
) -> Result<String, PageError> {
    let mut all = String::new();
    for (class, width) in WIDTHS {
        let mut svg = String::new();
        {
            let area = SVGBackend::with_string(&mut svg, (width, height)).into_drawing_area();
            paint(&area, width)?;
            area.present().map_err(draw)?;
        }
        // Readers with a screen reader have the table; this only says what it is.
        let label = maud::html! { (label) }.into_string();
        let named = svg.replacen(
            "<svg ",
            &format!("<svg class=\"{class}\" role=\"img\" aria-label=\"{label}\" "),
            1,
        );
        all += &named;
    }
    Ok(all)
}

/// A round number beyond which nothing lies, and one below.
fn decades(values: impl Iterator<Item = f64> + Clone) -> (f64, f64) {
    let low = values.clone().fold(0.5, f64::min);
    let high = values.fold(2.0, f64::max);
    (
        10f64.powf((low.log10() * 4.0 - 0.2).floor() / 4.0),
        10f64.powf((high.log10() * 4.0 + 0.2).ceil() / 4.0),
    )
}

/// Ratios: a row for each figure, a mark for each series, a line where both are equal.
///
/// # Errors
/// The numbers make no picture.
pub fn ratios(label: &str, rows: &[Row]) -> Result<String, PageError> {
    let values = rows.iter().flat_map(|row| row.points.iter().map(|(_, ratio)| *ratio));
    let (low, high) = decades(values);
    let count = rows.len() as f64;
    both(label, rows.len() as u32 * ROW + FOOT, |area, width| {
        let x = (low..high).log_scale();
        let mut builder = ChartBuilder::on(area);
        builder.margin_left(8).margin_right(16).x_label_area_size(FOOT - 8);
        let mut chart = builder.build_cartesian_2d(x, 0.0..count).map_err(draw)?;
        mesh(&mut chart, if width > 500 { 8 } else { 4 }, 0, &|v| number(*v), &|_| String::new())?;
        let equal = PathElement::new(vec![(1.0, 0.0), (1.0, count)], INK.stroke_width(1));
        chart.draw_series([equal]).map_err(draw)?;
        for (at, row) in rows.iter().enumerate() {
            let base = count - at as f64 - 1.0;
            // A rail for each row, so that the row of each mark is clear.
            let rail =
                PathElement::new(vec![(low, base + 0.3), (high, base + 0.3)], GRID.stroke_width(1));
            chart.draw_series([rail]).map_err(draw)?;
            let style =
                ("sans-serif", 13).into_font().color(&INK).pos(Pos::new(HPos::Left, VPos::Top));
            chart
                .draw_series([Text::new(row.label.clone(), (low, base + 0.98), style)])
                .map_err(draw)?;
            let dots = row.points.iter().map(|(series, ratio)| {
                Circle::new((*ratio, base + 0.3), 5, colour(*series).filled())
            });
            chart.draw_series(dots).map_err(draw)?;
        }
        Ok(())
    })
}

/// Lines and points over two linear axes that begin at 0.
///
/// # Errors
/// The numbers make no picture.
pub fn lines(label: &str, axes: [&str; 2], series: &[Series]) -> Result<String, PageError> {
    let most = |pick: fn(&(f64, f64)) -> f64| {
        let all = series.iter().flat_map(|s| s.points.iter().map(pick));
        all.filter(|v| v.is_finite()).fold(0.0, f64::max).max(1e-9) * 1.05
    };
    let (x, y) = (most(|p| p.0), most(|p| p.1));
    both(label, HEIGHT, |area, width| {
        let mut builder = ChartBuilder::on(area);
        builder.margin(10).x_label_area_size(40).y_label_area_size(56);
        let mut chart = builder.build_cartesian_2d(0.0..x, 0.0..y).map_err(draw)?;
        mesh_with_titles(&mut chart, if width > 500 { 10 } else { 4 }, axes)?;
        for one in series {
            let style = colour(one.colour);
            if one.line {
                chart
                    .draw_series(LineSeries::new(one.points.iter().copied(), style.stroke_width(2)))
                    .map_err(draw)?;
            }
            let radius = if one.line { 2 } else { 5 };
            chart
                .draw_series(one.points.iter().map(|p| Circle::new(*p, radius, style.filled())))
                .map_err(draw)?;
        }
        Ok(())
    })
}

type Chart<'a, 'b, X, Y> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<X, Y>>;

fn mesh<X, Y>(
    chart: &mut Chart<'_, '_, X, Y>,
    x_labels: usize,
    y_labels: usize,
    x_text: &dyn Fn(&X::ValueType) -> String,
    y_text: &dyn Fn(&Y::ValueType) -> String,
) -> Result<(), PageError>
where
    X: Ranged + ValueFormatter<<X as Ranged>::ValueType>,
    Y: Ranged + ValueFormatter<<Y as Ranged>::ValueType>,
{
    let font = ("sans-serif", 12).into_font().color(&INK);
    let mut mesh = chart.configure_mesh();
    mesh.bold_line_style(GRID).light_line_style(TRANSPARENT).axis_style(GRID).label_style(font);
    mesh.x_labels(x_labels).y_labels(y_labels).x_label_formatter(x_text).y_label_formatter(y_text);
    mesh.draw().map_err(draw)
}

fn mesh_with_titles<X, Y>(
    chart: &mut Chart<'_, '_, X, Y>,
    x_labels: usize,
    axes: [&str; 2],
) -> Result<(), PageError>
where
    X: Ranged<ValueType = f64> + ValueFormatter<f64>,
    Y: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    let font = ("sans-serif", 12).into_font().color(&INK);
    let mut mesh = chart.configure_mesh();
    mesh.bold_line_style(GRID)
        .light_line_style(TRANSPARENT)
        .axis_style(GRID)
        .label_style(font.clone());
    mesh.x_labels(x_labels).y_labels(6).x_desc(axes[0]).y_desc(axes[1]).axis_desc_style(font);
    mesh.x_label_formatter(&|v| number(*v)).y_label_formatter(&|v| number(*v));
    mesh.draw().map_err(draw)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plots_are_drawn_in_both_widths_with_colours_of_the_style_sheet() {
        let rows = [Row { label: "a < b".to_owned(), points: vec![(0, 0.5), (1, 30.0)] }];
        let svg = ratios("ratios & more", &rows).unwrap();
        assert_eq!(svg.matches("<svg ").count(), 2);
        assert!(svg.contains("class=\"wide\"") && svg.contains("class=\"narrow\""));
        assert!(
            svg.contains("a &lt; b") && svg.contains("aria-label=\"ratios &amp; more\""),
            "{svg}"
        );
        for colour in ["#010101", "#020202", "#0A0000", "#0A0001"] {
            assert!(svg.contains(colour), "{colour}");
        }
        assert!(super::super::STYLE.contains("#0A0001"));
        let series = [Series { colour: 2, line: true, points: vec![(1.0, 2.0), (3.0, 4.0)] }];
        assert_eq!(lines("l", ["x", "y"], &series).unwrap().matches("<svg ").count(), 2);
    }

    #[test]
    fn scales_hold_all_values() {
        let (low, high) = decades([0.03, 45.0].into_iter());
        assert!(low < 0.03 && high > 45.0 && high < 100.0, "{low} {high}");
        let (low, high) = decades(std::iter::empty());
        assert!(low < 0.5 && high > 2.0);
    }
}
