#pragma once

#include "server/ckn/layer.h"
#include "server/image/image.h"

namespace ckn {

// All filters of a layer as one picture: a grid read row by row, largest eta first, each filter scaled by itself so
// that its smallest weight is black and its largest white (a constant one is gray). One channel: gray; three: R, G, B;
// any other number: the filter's channels side by side as gray tiles, in channel order, left to right and top to
// bottom. Patch pixels are enlarged to be seen.
ImageU8 DrawFilters(const Layer& layer);

}  // namespace ckn
