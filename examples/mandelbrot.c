/* SPDX-License-Identifier: MIT */
/*
 * mandelbrot - draws the set into mandelbrot.ppm, or the file it is given; rows are shared out as
 * workers have time, since some take a thousand times as long as others.  `mandelbrot FILE WIDTH`
 * draws it so wide.  Prints:
 *
 *     mandelbrot.ppm: 1200 x 800
 */
#include <stdio.h>
#include <stdlib.h>
#include <weft/weft.h>

struct picture {
    unsigned char *pixels; /* red, green, blue */
    size_t width;
    size_t height;
};

static void draw_rows(size_t lo, size_t hi, void *arg)
{
    const struct picture *picture = arg;
    for (size_t i = lo * picture->width; i < hi * picture->width; i++) {
        const double x0 = 3.0 * (double)(i % picture->width) / (double)picture->width - 2.2;
        const double y0 = 2.0 * (double)(i / picture->width) / (double)picture->height - 1.0;
        double x = 0;
        double y = 0;
        int steps = 0;
        for (; steps < 255 && x * x + y * y < 4; steps++) {
            const double next = x * x - y * y + x0;
            y = 2 * x * y + y0;
            x = next;
        }
        picture->pixels[3 * i] = (unsigned char)(steps == 255 ? 0 : steps);
        picture->pixels[3 * i + 1] = (unsigned char)(steps == 255 ? 0 : 3 * steps);
        picture->pixels[3 * i + 2] = (unsigned char)(steps == 255 ? 0 : 9 * steps);
    }
}

static intptr_t draw(void *arg)
{
    return weft_for(0, ((struct picture *)arg)->height, 1, draw_rows, arg);
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "mandelbrot.ppm";
    struct picture picture = {NULL, argc > 2 ? strtoul(argv[2], NULL, 10) : 1200, 0};
    picture.height = picture.width * 2 / 3;
    picture.pixels = calloc(picture.width * picture.height + 1, 3);
    FILE *file = fopen(name, "wb");
    if (picture.pixels == NULL || file == NULL || weft_run(draw, &picture, NULL) != 0) {
        return 1;
    }
    (void)fprintf(file, "P6\n%zu %zu\n255\n", picture.width, picture.height);
    (void)fwrite(picture.pixels, 3, picture.width * picture.height, file);
    printf("%s: %zu x %zu\n", name, picture.width, picture.height);
    free(picture.pixels);
    return fclose(file) == 0 ? 0 : 1;
}
