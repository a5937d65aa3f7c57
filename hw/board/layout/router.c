/* Finds ways for tracks on a grid: four layers and vias through all of them. Driven by route.py, which knows parts and nets.
 *
 * A cell holds for each layer who may pass: nobody's copper near (0), one net's (its number), or several nets' (BLOCKED). Copper that stays
 * (pads, scripted pairs) and copper of tracks found here are kept apart, so that a way may be asked for across the latter, at a price;
 * route.py then takes up what is crossed. Distances are exact to the cell's middle. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define LAYERS 4
#define BLOCKED (-1)
#define VIA_RADIUS 0.2
#define TOLL 40 /* what a step (10) costs more in others' areas: a way out of them, not through them */
#define BEND 3 /* what a bend costs (a step costs 10): ways of one length then have few */
enum { NARROW, WIDE, VIA, MAPS }; /* what passes: a track of 0.12 mm, one of 0.2 mm, a via */
static const double HALF[MAPS] = {0.06, 0.1, VIA_RADIUS};

static int W, H;
static int low_i, low_j, high_i, high_j; /* what is painted and cleared lies within this window */
static double STEP;
static int32_t *fixed_[MAPS][LAYERS], *found_[MAPS][LAYERS];
static int32_t *cost_, *from_;
static uint32_t *stamp_, *target_, epoch_;
static uint16_t *history_;
static int32_t *reserved_[LAYERS]; /* whose area of copper this is: others' tracks pay to cut it */

typedef struct { int32_t key, node; } Entry;
static Entry *heap;
static int heap_size, heap_room;

int router_init(int width, int height, double step) {
  W = width; H = height; STEP = step;
  low_i = low_j = 0; high_i = W - 1; high_j = H - 1;
  size_t cells = (size_t)W * H;
  for (int m = 0; m < MAPS; m++)
    for (int l = 0; l < LAYERS; l++) {
      free(fixed_[m][l]); free(found_[m][l]);
      fixed_[m][l] = calloc(cells, sizeof(int32_t));
      found_[m][l] = calloc(cells, sizeof(int32_t));
      if (!fixed_[m][l] || !found_[m][l]) return -1;
    }
  free(cost_); free(from_); free(stamp_); free(target_); free(history_);
  for (int l = 0; l < LAYERS; l++) {
    free(reserved_[l]);
    reserved_[l] = calloc(cells, sizeof(int32_t));
    if (!reserved_[l]) return -1;
  }
  cost_ = malloc(cells * LAYERS * sizeof(int32_t));
  from_ = malloc(cells * LAYERS * sizeof(int32_t));
  stamp_ = calloc(cells * LAYERS, sizeof(uint32_t));
  target_ = calloc(cells * LAYERS, sizeof(uint32_t));
  history_ = calloc(cells * LAYERS, sizeof(uint16_t));
  epoch_ = 0;
  return cost_ && from_ && stamp_ && target_ && history_ ? 0 : -1;
}

/* The cells that the following calls may change. */
void router_window(int i0, int j0, int i1, int j1) {
  low_i = i0 < 0 ? 0 : i0; low_j = j0 < 0 ? 0 : j0;
  high_i = i1 >= W ? W - 1 : i1; high_j = j1 >= H ? H - 1 : j1;
}

/* A straight piece with round ends, or with half widths of its own a rectangle; keeps `clearance` to others' copper. */
void router_copper(int is_fixed, int layer_mask, double x0, double y0, double x1, double y1, double hx, double hy, double round, double clearance,
                   int net) {
  double low_x = fmin(x0, x1) - hx, high_x = fmax(x0, x1) + hx, low_y = fmin(y0, y1) - hy, high_y = fmax(y0, y1) + hy;
  double dx = x1 - x0, dy = y1 - y0, len2 = dx * dx + dy * dy;
  for (int m = 0; m < MAPS; m++) {
    double reach = HALF[m] + clearance - 1e-6;
    int i0 = (int)floor((low_x - reach - round) / STEP), i1 = (int)ceil((high_x + reach + round) / STEP);
    int j0 = (int)floor((low_y - reach - round) / STEP), j1 = (int)ceil((high_y + reach + round) / STEP);
    if (i0 < low_i) i0 = low_i;
    if (j0 < low_j) j0 = low_j;
    if (i1 > high_i) i1 = high_i;
    if (j1 > high_j) j1 = high_j;
    for (int j = j0; j <= j1; j++)
      for (int i = i0; i <= i1; i++) {
        double x = i * STEP, y = j * STEP, t = len2 > 0 ? ((x - x0) * dx + (y - y0) * dy) / len2 : 0;
        t = t < 0 ? 0 : t > 1 ? 1 : t;
        double ax = fabs(x - x0 - t * dx) - hx, ay = fabs(y - y0 - t * dy) - hy;
        if (ax < 0) ax = 0;
        if (ay < 0) ay = 0;
        if (ax * ax + ay * ay >= (reach + round) * (reach + round)) continue;
        int c = j * W + i;
        for (int l = 0; l < LAYERS; l++) {
          if (!(layer_mask >> l & 1)) continue;
          int32_t *cell = is_fixed ? &fixed_[m][l][c] : &found_[m][l][c];
          if (*cell == 0) *cell = net;
          else if (*cell != net) *cell = BLOCKED;
        }
      }
  }
}

static void no_via(int32_t **map, double x0, double y0, double hx, double hy, double reach) {
  int i0 = (int)floor((x0 - hx - reach) / STEP), i1 = (int)ceil((x0 + hx + reach) / STEP);
  int j0 = (int)floor((y0 - hy - reach) / STEP), j1 = (int)ceil((y0 + hy + reach) / STEP);
  for (int j = j0 < low_j ? low_j : j0; j <= j1 && j <= high_j; j++)
    for (int i = i0 < low_i ? low_i : i0; i <= i1 && i <= high_i; i++) {
      double ax = fmax(fabs(i * STEP - x0) - hx, 0), ay = fmax(fabs(j * STEP - y0) - hy, 0);
      if (ax * ax + ay * ay < reach * reach) map[0][j * W + i] = BLOCKED;
    }
}

/* No via of anybody's this near to a box: in a pad it would take the solder, and drills need some board between them. */
void router_no_via(int is_fixed, double x, double y, double hx, double hy, double reach) {
  no_via(is_fixed ? fixed_[VIA] : found_[VIA], x, y, hx, hy, reach);
}

/* Cells that are not board. */
void router_outside(const uint8_t *mask) {
  for (int m = 0; m < MAPS; m++)
    for (int l = 0; l < LAYERS; l++)
      for (int c = 0; c < W * H; c++)
        if (mask[c]) fixed_[m][l][c] = BLOCKED;
}

/* Cells of an area of a net's copper on a layer; the first one given stays. */
void router_reserve(int layer, const uint8_t *mask, int net) {
  for (int c = 0; c < W * H; c++)
    if (mask[c] && !reserved_[layer][c]) reserved_[layer][c] = net;
}

/* How many of some nodes lie in areas of other nets. */
int router_in_reserved(int net, const int32_t *nodes, int n) {
  int count = 0;
  for (int k = 0; k < n; k++) {
    int32_t r = reserved_[nodes[k] / (W * H)][nodes[k] % (W * H)];
    count += r != 0 && r != net;
  }
  return count;
}

void router_clear_found(void) {
  for (int m = 0; m < MAPS; m++)
    for (int l = 0; l < LAYERS; l++)
      for (int j = low_j; j <= high_j; j++) memset(found_[m][l] + (size_t)j * W + low_i, 0, (size_t)(high_i - low_i + 1) * sizeof(int32_t));
}

static int guess(int x, int y, int x0, int y0, int x1, int y1);

static void push(int32_t key, int32_t node) {
  if (heap_size == heap_room) {
    heap_room = heap_room ? heap_room * 2 : 1 << 16;
    heap = realloc(heap, heap_room * sizeof(Entry));
  }
  int n = heap_size++;
  while (n && heap[(n - 1) / 2].key > key) { heap[n] = heap[(n - 1) / 2]; n = (n - 1) / 2; }
  heap[n].key = key; heap[n].node = node;
}

static Entry pop(void) {
  Entry top = heap[0], last = heap[--heap_size];
  int n = 0;
  for (;;) {
    int c = 2 * n + 1;
    if (c >= heap_size) break;
    if (c + 1 < heap_size && heap[c + 1].key < heap[c].key) c++;
    if (heap[c].key >= last.key) break;
    heap[n] = heap[c]; n = c;
  }
  heap[n] = last;
  return top;
}

/* Cost of being here on top of the way: -1 where it cannot be. */
static int price(int map, int layer, int c, int net, int rip) {
  int32_t f = fixed_[map][layer][c];
  if (f != 0 && f != net) return -1;
  int32_t t = found_[map][layer][c];
  if (t == 0 || t == net) return 0;
  return rip ? rip + history_[(size_t)layer * W * H + c] : -1;
}

static int via_price(int c, int net, int rip) {
  int sum = 0;
  for (int l = 0; l < LAYERS; l++) {
    int p = price(VIA, l, c, net, rip);
    if (p < 0) return -1;
    if (p > sum) sum = p;
  }
  return sum;
}

/* Whether nodes of a net's track (map NARROW or WIDE) or via are clear of what stays. */
int router_fits(int net, int map, const int32_t *nodes, int n) {
  for (int k = 0; k < n; k++) {
    int32_t f = fixed_[map][nodes[k] / (W * H)][nodes[k] % (W * H)];
    if (f != 0 && f != net) return 0;
  }
  return 1;
}

/* From any of the starts to any of the ends (nodes: layer * W * H + y * W + x) or, where `plane` is given, also to any cell in it at which a
 * via can be; then without vias on the way. Returns the number of nodes written to `path` (from end to start), 0 if there is no way. `layers`: which may be used. */
int router_route(int net, int wide, const int32_t *starts, int n_starts, const int32_t *ends, int n_ends, const uint8_t *plane, int layers, int via_cost,
                 int rip, int most, int32_t *path, int room) {
  int cells = W * H, map = wide ? WIDE : NARROW;
  epoch_++;
  heap_size = 0;
  int ex0 = W, ey0 = H, ex1 = 0, ey1 = 0;
  for (int n = 0; n < n_ends; n++) {
    target_[ends[n]] = epoch_;
    int c = ends[n] % cells, x = c % W, y = c / W;
    if (x < ex0) ex0 = x;
    if (x > ex1) ex1 = x;
    if (y < ey0) ey0 = y;
    if (y > ey1) ey1 = y;
  }
#define GUESS(c) (plane || !n_ends ? 0 : guess((c) % W, (c) / W, ex0, ey0, ex1, ey1))

  for (int n = 0; n < n_starts; n++) {
    stamp_[starts[n]] = epoch_; cost_[starts[n]] = 0; from_[starts[n]] = -1;
    push(GUESS(starts[n] % cells), starts[n]);
  }
  static const int DX[8] = {1, -1, 0, 0, 1, 1, -1, -1}, DY[8] = {0, 0, 1, -1, 1, -1, 1, -1};
  while (heap_size) {
    Entry e = pop();
    int node = e.node, layer = node / cells, c = node % cells, x = c % W, y = c / W, g = cost_[node];
    if (g < 0) continue; /* done */
    if (e.key > g + GUESS(c)) continue;
    if (g > most) return 0;
    int reached = target_[node] == epoch_;
    if (plane && plane[c] && via_price(c, net, 0) == 0) reached = 1;
    if (reached) {
      int n = 0;
      for (int at = node; at >= 0 && n < room; at = from_[at]) path[n++] = at;
      return n;
    }
    cost_[node] = -g - 1;
    int came = -1;
    if (from_[node] >= 0 && from_[node] / cells == layer) {
      int px = x - from_[node] % cells % W, py = y - from_[node] % cells / W;
      for (int d = 0; d < 8; d++)
        if (DX[d] == px && DY[d] == py) came = d;
    }
    for (int d = 0; d < 8; d++) {
      int nx = x + DX[d], ny = y + DY[d];
      if (nx < 0 || ny < 0 || nx >= W || ny >= H) continue;
      int nc = ny * W + nx, nn = layer * cells + nc;
      int p = price(map, layer, nc, net, rip);
      if (p < 0) continue;
      int32_t area = reserved_[layer][nc];
      int ng = g + (d < 4 ? 10 : 14) + (area && area != net ? TOLL : 0) + p + (came >= 0 && came != d ? BEND : 0);
      if (stamp_[nn] == epoch_ && (cost_[nn] < 0 || cost_[nn] <= ng)) continue;
      stamp_[nn] = epoch_; cost_[nn] = ng; from_[nn] = node;
      push(ng + GUESS(nc), nn);
    }
    int p = plane ? -1 : via_price(c, net, rip);
    if (p < 0) continue;
    for (int l = 0; l < LAYERS; l++) {
      if (l == layer || !(layers >> l & 1)) continue;
      int nn = l * cells + c, ng = g + via_cost + p;
      if (price(map, l, c, net, rip) < 0) continue;
      if (stamp_[nn] == epoch_ && (cost_[nn] < 0 || cost_[nn] <= ng)) continue;
      stamp_[nn] = epoch_; cost_[nn] = ng; from_[nn] = node;
      push(ng + GUESS(c), nn);
    }
  }
  return 0;
}

static int guess(int x, int y, int x0, int y0, int x1, int y1) {
  int dx = x < x0 ? x0 - x : x > x1 ? x - x1 : 0, dy = y < y0 ? y0 - y : y > y1 ? y - y1 : 0;
  return dx > dy ? 10 * dx + 4 * dy : 10 * dy + 4 * dx;
}

/* Raises the price of cells in which a way of `net` is too near to other nets' found copper. */
void router_crossed(int net, int wide, const int32_t *path, int n) {
  int cells = W * H, map = wide ? WIDE : NARROW;
  for (int k = 0; k < n; k++) {
    int layer = path[k] / cells, c = path[k] % cells;
    int is_via = (k + 1 < n && path[k + 1] / cells != layer) || (k > 0 && path[k - 1] / cells != layer);
    for (int l = 0; l < LAYERS; l++) {
      if (l != layer && !is_via) continue;
      int32_t t = found_[l == layer && !is_via ? map : VIA][l][c];
      uint16_t *h = &history_[(size_t)l * cells + c];
      if (t != 0 && t != net && *h < 2000) *h += 20;
    }
  }
}
