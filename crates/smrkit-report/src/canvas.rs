//! Canvas that figures are drawn on: an SVG document, or pixels for a PNG.
//!
//! The font (Ubuntu Light) is compiled in, so that no font of the system is needed and text can be measured. An SVG
//! names fonts instead of carrying one; `text_width` leaves room for wider ones.
//!
//! The pixels are painted by hand: `resvg` would paint the SVG instead of these 120 lines, but needs 24 more crates, and 40 s of a
//! processor to build instead of 7 (resvg 0.49 with text only, against tiny-skia and ttf-parser).

use tiny_skia::{FillRule, LineCap, LineJoin, Paint, PathBuilder, Pixmap, Rect, Stroke, StrokeDash, Transform};
use ttf_parser::{Face, GlyphId, OutlineBuilder};

use crate::figure::Colour;
use crate::format::escape;
use crate::png;

/// Fonts that an SVG asks for, from the one that was measured to any.
const FAMILIES: &str = "Ubuntu, 'Noto Sans', 'DejaVu Sans', Arial, sans-serif";
/// The width of an SVG viewer's font, at most, in widths of the measured one (assumption; DejaVu Sans is 1.12).
const ROOM: f64 = 1.15;
/// Pixels of a PNG for each unit.
const PIXELS: f32 = 2.0;
/// Lengths of a broken line's strokes and gaps.
const DASH: [f32; 2] = [7.0, 4.0];

/// Position of a text's anchor in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor {
    /// At its start.
    Start,
    /// In its middle.
    Middle,
    /// At its end.
    End,
}

/// A text to draw; its position is on the base line.
#[derive(Clone, Copy, Debug)]
pub struct Label<'a> {
    /// The text.
    pub text: &'a str,
    /// Its size, in units an em.
    pub size: f64,
    /// Its colour.
    pub colour: Colour,
    /// Position of the anchor in it.
    pub anchor: Anchor,
    /// True where it runs upward.
    pub turned: bool,
}

/// Something that can be drawn on. Units are CSS pixels from the upper left corner.
pub trait Canvas {
    /// Fills a rectangle.
    fn rect(&mut self, x: f64, y: f64, width: f64, height: f64, colour: Colour);
    /// Draws a line through points.
    fn path(&mut self, points: &[(f64, f64)], colour: Colour, width: f64, dashed: bool);
    /// Fills a circle.
    fn dot(&mut self, x: f64, y: f64, radius: f64, colour: Colour);
    /// Writes a text.
    fn text(&mut self, x: f64, y: f64, label: Label);
}

const FONT: &[u8] = include_bytes!("../vendor/Ubuntu-Light.ttf");

fn font() -> Option<Face<'static>> {
    Face::parse(FONT, 0).ok()
}

/// The glyph of a character, or the font's mark for one that it lacks.
fn glyph_of(font: &Face, c: char) -> GlyphId {
    font.glyph_index(c).unwrap_or(GlyphId(0))
}

/// The room that a text needs.
pub fn text_width(text: &str, size: f64) -> f64 {
    match font() {
        Some(font) => advance(&font, text, size) * ROOM,
        // No font can only mean a broken build; half an em a letter is near.
        None => text.chars().count() as f64 * size * 0.5,
    }
}

fn advance(font: &Face, text: &str, size: f64) -> f64 {
    let units: u64 = text.chars().map(|c| u64::from(font.glyph_hor_advance(glyph_of(font, c)).unwrap_or(0))).sum();
    units as f64 / f64::from(font.units_per_em()) * size
}

/// An SVG document being written.
pub struct Svg {
    body: String,
    size: (f64, f64),
}

impl Svg {
    /// An empty white document.
    pub fn new(width: f64, height: f64) -> Svg {
        let mut svg = Svg { body: String::new(), size: (width, height) };
        svg.rect(0.0, 0.0, width, height, Colour(255, 255, 255));
        svg
    }

    /// The document.
    pub fn finish(self) -> String {
        let (width, height) = self.size;
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
             viewBox=\"0 0 {width:.0} {height:.0}\" font-family=\"{FAMILIES}\">\n{}</svg>\n",
            self.body
        )
    }
}

impl Canvas for Svg {
    fn rect(&mut self, x: f64, y: f64, width: f64, height: f64, colour: Colour) {
        self.body += &format!(
            "<rect x=\"{x:.2}\" y=\"{y:.2}\" width=\"{width:.2}\" height=\"{height:.2}\" fill=\"{}\" \
             shape-rendering=\"crispEdges\"/>\n",
            colour.hex()
        );
    }

    fn path(&mut self, points: &[(f64, f64)], colour: Colour, width: f64, dashed: bool) {
        let points: Vec<String> = points.iter().map(|(x, y)| format!("{x:.2},{y:.2}")).collect();
        let dash = if dashed { format!(" stroke-dasharray=\"{} {}\"", DASH[0], DASH[1]) } else { String::new() };
        self.body += &format!(
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{width}\" stroke-linejoin=\"round\"{dash}/>\n",
            points.join(" "),
            colour.hex()
        );
    }

    fn dot(&mut self, x: f64, y: f64, radius: f64, colour: Colour) {
        self.body += &format!("<circle cx=\"{x:.2}\" cy=\"{y:.2}\" r=\"{radius}\" fill=\"{}\"/>\n", colour.hex());
    }

    fn text(&mut self, x: f64, y: f64, label: Label) {
        let anchor = match label.anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let turn = if label.turned { format!(" transform=\"rotate(-90 {x:.2} {y:.2})\"") } else { String::new() };
        // XML takes no control characters, not even escaped.
        let text: String = label.text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        self.body += &format!(
            "<text x=\"{x:.2}\" y=\"{y:.2}\" font-size=\"{}\" text-anchor=\"{anchor}\" fill=\"{}\"{turn}>{}</text>\n",
            label.size,
            label.colour.hex(),
            escape(&text)
        );
    }
}

/// Pixels being painted.
pub struct Raster {
    pixels: Pixmap,
    font: Option<Face<'static>>,
}

impl Raster {
    /// A white picture; `None` if it has no area or is too large to hold.
    pub fn new(width: f64, height: f64) -> Option<Raster> {
        let mut pixels = Pixmap::new((width as f32 * PIXELS) as u32, (height as f32 * PIXELS) as u32)?;
        pixels.fill(tiny_skia::Color::WHITE);
        Some(Raster { pixels, font: font() })
    }

    /// The picture as PNG. White lies below all, so that every pixel is opaque.
    pub fn finish(&self) -> Vec<u8> {
        let pixels: Vec<u8> = self.pixels.pixels().iter().flat_map(|p| [p.red(), p.green(), p.blue()]).collect();
        png::encode(self.pixels.width(), self.pixels.height(), &pixels)
    }

    fn scale() -> Transform {
        Transform::from_scale(PIXELS, PIXELS)
    }
}

fn paint(colour: Colour) -> Paint<'static> {
    let mut paint = Paint::default();
    paint.set_color_rgba8(colour.0, colour.1, colour.2, 255);
    paint
}

impl Canvas for Raster {
    fn rect(&mut self, x: f64, y: f64, width: f64, height: f64, colour: Colour) {
        if let Some(rect) = Rect::from_xywh(x as f32, y as f32, width as f32, height as f32) {
            // Neighbours would show a seam if each were blended with the background.
            let paint = Paint { anti_alias: false, ..paint(colour) };
            self.pixels.fill_rect(rect, &paint, Raster::scale(), None);
        }
    }

    fn path(&mut self, points: &[(f64, f64)], colour: Colour, width: f64, dashed: bool) {
        let mut path = PathBuilder::new();
        for (i, &(x, y)) in points.iter().enumerate() {
            if i == 0 { path.move_to(x as f32, y as f32) } else { path.line_to(x as f32, y as f32) }
        }
        let dash = if dashed { StrokeDash::new(DASH.to_vec(), 0.0) } else { None };
        let (line_cap, line_join) = (LineCap::Butt, LineJoin::Round);
        let stroke = Stroke { width: width as f32, line_cap, line_join, dash, ..Stroke::default() };
        if let Some(path) = path.finish() {
            self.pixels.stroke_path(&path, &paint(colour), &stroke, Raster::scale(), None);
        }
    }

    fn dot(&mut self, x: f64, y: f64, radius: f64, colour: Colour) {
        if let Some(circle) = PathBuilder::from_circle(x as f32, y as f32, radius as f32) {
            self.pixels.fill_path(&circle, &paint(colour), FillRule::Winding, Raster::scale(), None);
        }
    }

    fn text(&mut self, x: f64, y: f64, label: Label) {
        let Some(font) = &self.font else { return };
        let shift = match label.anchor {
            Anchor::Start => 0.0,
            Anchor::Middle => -0.5,
            Anchor::End => -1.0,
        };
        let start = (shift * advance(font, label.text, label.size)) as f32;
        let em = label.size as f32 / f32::from(font.units_per_em());
        let Some(path) = outline(font, label.text, start / em) else { return };
        let turn = if label.turned { Transform::from_rotate(-90.0) } else { Transform::identity() };
        // Glyphs count upward from the base line, pictures downward.
        let place = Transform::from_scale(em, -em).post_concat(turn).post_translate(x as f32, y as f32);
        let to_pixels = place.post_concat(Raster::scale());
        self.pixels.fill_path(&path, &paint(label.colour), FillRule::Winding, to_pixels, None);
        // The font is a light one; a hair's stroke makes it readable at the size of a tick.
        let hair = Stroke { width: 0.3 / em, ..Stroke::default() };
        self.pixels.stroke_path(&path, &paint(label.colour), &hair, to_pixels, None);
    }
}

/// The outline of a text, in the font's units, from `start` on the base line.
fn outline(font: &Face, text: &str, start: f32) -> Option<tiny_skia::Path> {
    let mut text_outline = Outline { path: PathBuilder::new(), at: start };
    for c in text.chars() {
        let glyph = glyph_of(font, c);
        font.outline_glyph(glyph, &mut text_outline);
        text_outline.at += f32::from(font.glyph_hor_advance(glyph).unwrap_or(0));
    }
    text_outline.path.finish()
}

/// A path that takes glyphs, each placed at `at`.
struct Outline {
    path: PathBuilder,
    at: f32,
}

impl OutlineBuilder for Outline {
    fn move_to(&mut self, x: f32, y: f32) {
        self.path.move_to(self.at + x, y);
    }

    fn line_to(&mut self, x: f32, y: f32) {
        self.path.line_to(self.at + x, y);
    }

    fn quad_to(&mut self, x1: f32, y1: f32, x: f32, y: f32) {
        self.path.quad_to(self.at + x1, y1, self.at + x, y);
    }

    fn curve_to(&mut self, x1: f32, y1: f32, x2: f32, y2: f32, x: f32, y: f32) {
        self.path.cubic_to(self.at + x1, y1, self.at + x2, y2, self.at + x, y);
    }

    fn close(&mut self) {
        self.path.close();
    }
}
