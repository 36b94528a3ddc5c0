/* SPDX-License-Identifier: MIT */
/*
 * mandelbrot [FILE [WIDTH]] - draws the set; idle workers take rows.  Prints:
 *
 *     mandelbrot.ppm: 1200 x 800
 */
#include <stdio.h>
#include <stdlib.h>
#include <weft/weft.h>

struct picture {
    unsigned char *pixels; /* red, green, blue */
    size_t width;
};

static void draw_rows(size_t lo, size_t hi, void *arg)
{
    const struct picture *picture = arg;
    unsigned char *pixel = picture->pixels + 3 * lo * picture->width;
    for (size_t i = lo * picture->width; i < hi * picture->width; i++) {
        const size_t column = i % picture->width;
        const size_t row = i / picture->width;
        const double x0 = 3.0 * (double)column / (double)picture->width - 2.2;
        const double y0 = 3.0 * (double)row / (double)picture->width - 1.0;
        double x = 0;
        double y = 0;
        int steps = 0;
        for (; steps < 255 && x * x + y * y < 4; steps++) {
            const double next = x * x - y * y + x0;
            y = 2 * x * y + y0;
            x = next;
        }
        for (int color = 1; color <= 3; color++) {
            *pixel++ = (unsigned char)(steps == 255 ? 0 : color * color * steps);
        }
    }
}

static intptr_t draw(void *arg)
{
    return weft_par_for(0, ((struct picture *)arg)->width * 2 / 3, 1, draw_rows, arg);
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "mandelbrot.ppm";
    struct picture picture = {NULL, argc > 2 ? strtoul(argv[2], NULL, 10) : 1200};
    const size_t height = picture.width * 2 / 3;
    picture.pixels = calloc(picture.width * height + 1, 3);
    FILE *file = fopen(name, "wb");
    int is_wrong = file == NULL || picture.pixels == NULL || weft_run(draw, &picture, NULL) != 0;
    if (!is_wrong) {
        is_wrong = fprintf(file, "P6\n%zu %zu\n255\n", picture.width, height) < 0 ||
                   fwrite(picture.pixels, 3, picture.width * height, file) == 0 ||
                   fclose(file) != 0 || printf("%s: %zu x %zu\n", name, picture.width, height) < 0;
    }
    free(picture.pixels);
    return is_wrong;
}
