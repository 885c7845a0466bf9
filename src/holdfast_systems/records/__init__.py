"""Records: companies, people and slots behind an error model that people can program against."""

__all__: list[str] = []
