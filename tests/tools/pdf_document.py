"""PDF documents made by hand, for tests: one page for each text."""


def pdf_document(*pages: str) -> bytes:
    """A document whose pages show these lines of ASCII text."""
    kids = " ".join(f"{4 + 2 * at} 0 R" for at in range(len(pages)))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for at, text in enumerate(pages):
        shown = "".join(f"({line}) Tj T* " for line in text.split("\n") if line)
        content = f"BT /F1 12 Tf 14 TL 72 720 Td {shown}ET"
        fonts = "/Resources << /Font << /F1 3 0 R >> >>"
        size = "/MediaBox [0 0 612 792]"
        objects.append(f"<< /Type /Page /Parent 2 0 R {size} {fonts} /Contents {5 + 2 * at} 0 R >>")
        objects.append(f"<< /Length {len(content)} >>\nstream\n{content}\nendstream")
    body = "%PDF-1.4\n"
    places = []
    for number, each in enumerate(objects, 1):
        places.append(len(body))
        body += f"{number} 0 obj\n{each}\nendobj\n"
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    start = len(body)
    body += f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}"
    body += f"trailer\n<< /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{start}\n%%EOF\n"
    return body.encode("ascii")
